// Memory of CPU tensors, kept for the next tensor of its size. A training step of a small model makes thousands of
// short-lived tensors: asking the C library for each, at an aligned address, took a sixth of the step, and left the
// heap in pieces that made everything else slower.
#pragma once

namespace asr {

// Every CPU tensor made afterwards gets its memory here. Freed blocks up to 32 MB stay with the thread that freed them,
// at most 256 MB of them a thread; larger ones go back at once.
void use_block_cache();

}  // namespace asr
