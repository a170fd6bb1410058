#include "io/unicode.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace asr {
namespace {

using C = CharacterClass;
struct ClassRange {
  uint32_t first, last;
  C value;
};
struct CombiningRange {
  uint32_t first, last;
  uint8_t value;
};
struct Decomposition {
  uint32_t code, first, second;  // second 0: one code only
  bool composes;
};
struct LowerRun {
  uint32_t first, last, step;
  int32_t difference;
};
#include "io/unicode_tables.inc"

constexpr uint32_t kHangul = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

template <class Range, size_t size>
const Range* find_range(const Range (&table)[size], uint32_t code) {
  const auto* at = std::upper_bound(table, table + size, code, [](uint32_t c, const Range& r) { return c < r.first; });
  return at != table && code <= (at - 1)->last ? at - 1 : nullptr;
}

uint8_t combining_class(uint32_t code) {
  if (code < 0x300) return 0;
  const auto* range = find_range(kCombining, code);
  return range ? range->value : 0;
}

const Decomposition* decomposition_of(uint32_t code) {
  const auto* end = std::end(kDecompositions);
  const auto* at = std::lower_bound(std::begin(kDecompositions), end, code,
                                    [](const Decomposition& d, uint32_t c) { return d.code < c; });
  return at != end && at->code == code ? at : nullptr;
}

// Canonical decompositions nest at most four deep, so the recursion is short.
void append_decomposed(Characters& out, Character c) {
  if (c.code < 0xC0) {
    out.push_back(c);
  } else if (c.code - kHangul < kSyllables) {
    const uint32_t index = c.code - kHangul, tail = index % kTails;
    out.push_back({kLead + index / (kVowels * kTails), c.begin, c.end});
    out.push_back({kVowel + index / kTails % kVowels, c.begin, c.end});
    if (tail) out.push_back({kTail + tail, c.begin, c.end});
  } else if (const auto* parts = decomposition_of(c.code)) {
    append_decomposed(out, {parts->first, c.begin, c.end});
    if (parts->second) append_decomposed(out, {parts->second, c.begin, c.end});
  } else {
    out.push_back(c);
  }
}

// The code that two others compose to, or 0.
uint32_t composed(uint32_t a, uint32_t b) {
  if (a - kLead < kLeads && b - kVowel < kVowels) return kHangul + ((a - kLead) * kVowels + b - kVowel) * kTails;
  if (a - kHangul < kSyllables && (a - kHangul) % kTails == 0 && b > kTail && b < kTail + kTails) return a + b - kTail;
  static const auto pairs = [] {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> out;
    for (const auto& d : kDecompositions)
      if (d.composes) out[{d.first, d.second}] = d.code;
    return out;
  }();
  const auto found = pairs.find({a, b});
  return found == pairs.end() ? 0 : found->second;
}

// Length of the sequence at `i`, and its code; a wrong one gives U+FFFD and the length of its longest good beginning.
size_t next_code(const std::string& text, size_t i, uint32_t& code) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<uint8_t>(text[k]) : 0u; };
  const uint32_t lead = byte(i);
  code = lead;
  if (lead < 0x80) return 1;
  code = kReplacement;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (!length) return 1;
  uint32_t value = lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    const uint32_t next = byte(i + k);
    uint32_t low = 0x80, high = 0xBF;
    if (k == 1) {  // overlong forms, surrogates and codes beyond U+10FFFF end here
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (next < low || next > high) return k;
    value = value << 6 | (next & 0x3F);
  }
  code = value;
  return length;
}

}  // namespace

Characters decode_utf8(const std::string& text) {
  Characters out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    uint32_t code;
    const size_t length = next_code(text, i, code);
    out.push_back({code, i, i + length});
    i += length;
  }
  return out;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string encode_utf8(const Characters& text, size_t begin, size_t end) {
  std::string out;
  for (size_t i = begin; i < end; ++i) append_utf8(out, text[i].code);
  return out;
}

std::string encode_utf8(const Characters& text) {
  return encode_utf8(text, 0, text.size());
}

std::string valid_utf8(const std::string& bytes) {
  return encode_utf8(decode_utf8(bytes));
}

bool is_utf8(const std::string& bytes) {
  return valid_utf8(bytes) == bytes;
}

CharacterClass class_of(uint32_t code) {
  if (code < 0x80) {
    if ((code | 0x20) - 'a' < 26) return C::Letter;
    if (code == ' ') return C::Space;
  }
  const auto* range = find_range(kClasses, code);
  return range ? range->value : C::Other;
}

Characters nfd(const Characters& text) {
  Characters out;
  out.reserve(text.size());
  for (const auto& c : text) append_decomposed(out, c);
  for (size_t i = 0; i < out.size();) {  // marks after a starter go by combining class
    size_t end = i;
    while (end < out.size() && combining_class(out[end].code)) ++end;
    std::stable_sort(
        out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(end),
        [](const Character& a, const Character& b) { return combining_class(a.code) < combining_class(b.code); });
    i = end + 1;
  }
  return out;
}

Characters nfc(const Characters& text) {
  if (std::all_of(text.begin(), text.end(), [](const Character& c) { return c.code < 0x300; })) return text;
  Characters out;
  out.reserve(text.size());
  size_t starter = SIZE_MAX;
  int last_class = -1;  // of the last mark kept since the starter; -1: none
  for (const auto& c : nfd(text)) {
    const int klass = combining_class(c.code);
    const uint32_t code = starter != SIZE_MAX && last_class < klass ? composed(out[starter].code, c.code) : 0;
    if (code) {
      out[starter] = {code, std::min(out[starter].begin, c.begin), std::max(out[starter].end, c.end)};
      continue;
    }
    if (klass == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = klass;
    }
    out.push_back(c);
  }
  return out;
}

Characters lower_case(const Characters& text) {
  Characters out;
  out.reserve(text.size());
  for (auto c : text) {
    if (c.code == 0x130) {  // the one letter whose lower case is two codes
      out.push_back({'i', c.begin, c.end});
      out.push_back({0x307, c.begin, c.end});
      continue;
    }
    const auto* run = find_range(kLower, c.code);
    if (run && (c.code - run->first) % run->step == 0)
      c.code = static_cast<uint32_t>(static_cast<int32_t>(c.code) + run->difference);
    out.push_back(c);
  }
  return out;
}

}  // namespace asr
