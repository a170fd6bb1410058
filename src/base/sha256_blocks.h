// The inner function of SHA-256 over whole blocks of 64 bytes: a plain one, and one with the instructions that newer
// x86 processors have for it. A checkpoint of 13.5 GB is hashed before a run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asr {

using Sha256Blocks = void (*)(uint32_t* state, const uint8_t* data, size_t blocks);

void sha256_blocks_plain(uint32_t* state, const uint8_t* data, size_t blocks);
Sha256Blocks sha256_blocks_of_processor();  // null where it has no such instructions
Sha256Blocks fastest_sha256_blocks();

}  // namespace asr
