// Memory of CPU tensors, kept for the next tensor of its size: a training step of a small model makes thousands of
// short-lived tensors, each at an aligned address. docs/performance.md says what it brings.
#pragma once

namespace asr {

// Every CPU tensor made afterwards gets its memory here. Freed blocks up to 32 MB stay with the thread that freed them,
// at most 256 MB of them a thread; larger ones go back at once.
void use_block_cache();

}  // namespace asr
