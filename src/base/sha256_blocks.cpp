#include "base/sha256_blocks.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace asr {
namespace {

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t x, int n) {
  return (x >> n) | (x << (32 - n));
}

void plain_block(uint32_t* state, const uint8_t* data) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t(data[4 * i]) << 24 | uint32_t(data[4 * i + 1]) << 16 | uint32_t(data[4 * i + 2]) << 8 |
           data[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; ++i) {
    const uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

void sha256_blocks_plain(uint32_t* state, const uint8_t* data, size_t blocks) {
  for (size_t i = 0; i < blocks; ++i) plain_block(state, data + 64 * i);
}

#ifdef __x86_64__
namespace {

#define ASR_SHA_INSTRUCTIONS __attribute__((target("sha,sse4.1,ssse3")))

// The state as the instructions want it: words a, b, e, f and c, d, g, h.
struct ShaState {
  __m128i abef, cdgh;
};

// Four rounds with the words w.
ASR_SHA_INSTRUCTIONS inline void four_rounds(ShaState& state, __m128i w, const uint32_t* constants) {
  const __m128i sum = _mm_add_epi32(w, _mm_load_si128(reinterpret_cast<const __m128i*>(constants)));
  state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sum);
  state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

// The four words that come after the sixteen of a, b, c, d.
ASR_SHA_INSTRUCTIONS inline __m128i next_words(__m128i a, __m128i b, __m128i c, __m128i d) {
  return _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), d);
}

ASR_SHA_INSTRUCTIONS inline __m128i four_words(const uint8_t* data) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)), big_endian);
}

ASR_SHA_INSTRUCTIONS void sha256_blocks_x86(uint32_t* words, const uint8_t* data, size_t blocks) {
  auto* low = reinterpret_cast<__m128i*>(words);
  auto* high = reinterpret_cast<__m128i*>(words + 4);
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(low), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(high), 0x1b);
  ShaState state{_mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xf0)};
  for (size_t i = 0; i < blocks; ++i) {
    const ShaState before = state;
    __m128i w0 = four_words(data), w1 = four_words(data + 16), w2 = four_words(data + 32), w3 = four_words(data + 48);
    four_rounds(state, w0, kRound);
    four_rounds(state, w1, kRound + 4);
    four_rounds(state, w2, kRound + 8);
    four_rounds(state, w3, kRound + 12);
    for (const uint32_t* constants = kRound + 16; constants < kRound + 64; constants += 16) {
      w0 = next_words(w0, w1, w2, w3);
      four_rounds(state, w0, constants);
      w1 = next_words(w1, w2, w3, w0);
      four_rounds(state, w1, constants + 4);
      w2 = next_words(w2, w3, w0, w1);
      four_rounds(state, w2, constants + 8);
      w3 = next_words(w3, w0, w1, w2);
      four_rounds(state, w3, constants + 12);
    }
    state.abef = _mm_add_epi32(state.abef, before.abef);
    state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
    data += 64;
  }
  const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1b), dchg = _mm_shuffle_epi32(state.cdgh, 0xb1);
  _mm_storeu_si128(low, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(high, _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool vectors = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1);
  return vectors && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

}  // namespace

Sha256Blocks sha256_blocks_of_processor() {
  static const bool there = has_sha_instructions();
  return there ? sha256_blocks_x86 : nullptr;
}
#else
Sha256Blocks sha256_blocks_of_processor() {
  return nullptr;
}
#endif

Sha256Blocks fastest_sha256_blocks() {
  const auto own = sha256_blocks_of_processor();
  return own ? own : sha256_blocks_plain;
}

}  // namespace asr
