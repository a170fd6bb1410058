// Several copies of this program with the same command line, one a process of a run (parallel/data_parallel.h).
#pragma once

#include <cstdint>

namespace asr {

// Starts the copies, forwards Ctrl-C and SIGTERM to them, and waits. The first prints as usual, the others are heard
// only when they fail first. When one dies the rest are ended; after a SIGTERM all end within ten seconds. Returns the
// exit status that the command should have.
int launch_copies(int64_t processes);

// In a copy: it ends when the command that started it does, however that ends. Nothing elsewhere.
void end_with_launcher();

}  // namespace asr
