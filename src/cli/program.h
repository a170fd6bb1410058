// The whole program: sets up the process, parses the command line, and turns every failure into one line on stderr.
// Apart from main, so that tests can run it without loading libtorch anew, which takes half a second each time.
#pragma once

namespace asr {

int program(int argc, char** argv);  // exit status: 0 success, 2 bad input or usage, 1 anything else

}  // namespace asr
