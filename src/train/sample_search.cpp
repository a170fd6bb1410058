#include "train/sample_search.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <set>
#include <string_view>

#include "base/error.h"
#include "io/image.h"

namespace asr {
namespace {

constexpr size_t kWindows[] = {96, 32, 12};  // bytes that are hashed, longest first
constexpr size_t kFewestTokens = 4;
constexpr size_t kSeenBits = 22;
constexpr uint64_t kBase = 0x9e3779b97f4a7c15;

constexpr size_t kLongestNeedle = 192;  // bytes that are kept of a row; a photograph's are thousands

size_t variety(const char* bytes, size_t size) {
  std::bitset<256> seen;
  for (size_t i = 0; i < size; ++i) seen.set(static_cast<uint8_t>(bytes[i]));
  return seen.count();
}

// Enough different bytes that a match is no accident.
bool is_telling(const std::string& bytes) {
  return bytes.size() >= 12 && variety(bytes.data(), bytes.size()) >= 6;
}

uint64_t hash_of_window(const char* bytes, size_t size) {
  uint64_t out = 0;
  for (size_t i = 0; i < size; ++i) out = out * kBase + static_cast<uint8_t>(bytes[i]) + 1;
  return out;
}

template <class Integer>
std::string as_bytes(const std::vector<Token>& tokens) {
  std::string out;
  for (const auto& token : tokens) {
    const auto value = static_cast<Integer>(token.id);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

// Numbers as the whole numbers or bytes they may stand for.
torch::Tensor whole_numbers(const torch::Tensor& tensor, double factor) {
  return at::nan_to_num(tensor.to(at::kDouble)).mul(factor).round().clamp(-1, 1e9).to(at::kLong).contiguous();
}

}  // namespace

double SampleSearch::bytes_a_sample() const {
  return samples_ ? bytes_ / static_cast<double>(samples_) : 0;
}

void SampleSearch::add_needle(std::string bytes, const char* what) {
  if (!is_telling(bytes)) return;
  const size_t length =
      *std::find_if(std::begin(kWindows), std::end(kWindows), [&](size_t window) { return window <= bytes.size(); });
  size_t best = 0, most = 0;
  for (size_t at = 0; at + length <= bytes.size(); at += std::max<size_t>(1, length / 4)) {
    const size_t here = variety(bytes.data() + at, length);
    if (here > most) {
      best = at;
      most = here;
    }
  }
  if (bytes.size() > kLongestNeedle) {
    const size_t begin = std::min(best, bytes.size() - kLongestNeedle);
    bytes = bytes.substr(begin, kLongestNeedle);
    best -= begin;
  }
  auto& windows = by_length_[length];
  windows.seen.resize(size_t(1) << kSeenBits);
  const uint64_t hash = hash_of_window(bytes.data() + best, length);
  windows.seen[hash >> (64 - kSeenBits)] = true;
  windows.needles.emplace(hash, needles_.size());
  needles_.push_back({std::move(bytes), best, what, names_.size() - 1});
}

void SampleSearch::add(const StreamSample& sample, const Tokenizer& tokenizer) {
  names_.push_back(sample.id);
  ++samples_;
  bytes_ += static_cast<double>(sample.pixels.size() + sample.question.size() + sample.answer.size());
  // The middle row of the picture, in the channel order of files and of tensors.
  const auto width = static_cast<size_t>(sample.width), row = static_cast<size_t>(sample.height / 2);
  if (sample.pixels.size() >= (row + 1) * width * 3) {
    const std::string pixels(reinterpret_cast<const char*>(sample.pixels.data()) + row * width * 3, width * 3);
    add_needle(pixels, "image");
    for (size_t channel = 0; channel < 3; ++channel) {
      std::string plane;
      for (size_t x = 0; x < width; ++x) plane += pixels[x * 3 + channel];
      add_needle(plane, "image");
    }
  }
  add_needle(sample.question, "question");
  const auto tokens = tokenizer.encode(sample.question);
  std::set<int64_t> kinds;
  for (const auto& token : tokens) kinds.insert(token.id);
  if (kinds.size() < kFewestTokens) return;
  add_needle(as_bytes<int64_t>(tokens), "tokens");
  add_needle(as_bytes<int32_t>(tokens), "tokens");
  add_needle(as_bytes<int16_t>(tokens), "tokens");
}

std::string SampleSearch::find_in(const char* data, size_t size, size_t length, const Windows& windows) const {
  if (size < length) return "";
  uint64_t power = 1;  // of the byte that leaves the window
  for (size_t i = 1; i < length; ++i) power *= kBase;
  uint64_t hash = hash_of_window(data, length);
  for (size_t at = 0;; ++at) {
    if (windows.seen[hash >> (64 - kSeenBits)]) {
      const auto [first, last] = windows.needles.equal_range(hash);
      for (auto place = first; place != last; ++place) {
        const auto& needle = needles_[place->second];
        const bool fits = at >= needle.window && at - needle.window + needle.bytes.size() <= size;
        if (fits && std::memcmp(data + at - needle.window, needle.bytes.data(), needle.bytes.size()) == 0)
          return std::string(needle.what) + " of " + names_[needle.sample];
      }
    }
    if (at + length >= size) return "";
    hash = (hash - power * (static_cast<uint8_t>(data[at]) + 1u)) * kBase + static_cast<uint8_t>(data[at + length]) + 1;
  }
}

std::string SampleSearch::find(const char* data, size_t size) const {
  for (const auto& [length, windows] : by_length_)
    if (auto found = find_in(data, size, length, windows); !found.empty()) return found;
  return "";
}

std::string SampleSearch::find_in_images(const char* data, size_t size) const {
  const std::string_view bytes(data, size);
  for (const std::string_view begin : {std::string_view("\x89PNG\r\n\x1a\n"), std::string_view("\xff\xd8\xff")})
    for (size_t at = bytes.find(begin); at != std::string_view::npos; at = bytes.find(begin, at + 1)) try {
        const auto image = decode_image({reinterpret_cast<const uint8_t*>(data) + at, size - at}, "bytes");
        auto found = find(reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size());
        if (!found.empty()) return found;
      } catch (const Error&) {  // bytes that only begin like an image
      }
  return "";
}

std::string SampleSearch::find(const std::string& bytes) const {
  auto found = find(bytes.data(), bytes.size());
  return found.empty() ? find_in_images(bytes.data(), bytes.size()) : found;
}

std::string SampleSearch::find(const torch::Tensor& tensor) const {
  const auto plain = tensor.detach().cpu().contiguous();
  if (plain.numel() == 0) return "";  // no address either
  const auto* data = static_cast<const char*>(plain.data_ptr());
  if (auto found = find(data, plain.nbytes()); !found.empty()) return found;
  if (auto found = find_in_images(data, plain.nbytes()); !found.empty()) return found;
  // A replay buffer may hold gigabytes, and its numbers as such take eight times that: piece by piece.
  constexpr int64_t kPiece = 1 << 24, kOverlap = kLongestNeedle;
  const auto flat = plain.flatten();
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const int64_t end = std::min(flat.numel(), begin + kPiece + kOverlap);
    if (auto found = find_numbers(flat.narrow(0, begin, end - begin)); !found.empty()) return found;
  }
  return "";
}

std::string SampleSearch::find_numbers(const torch::Tensor& plain) const {
  for (const double factor : {1.0, 255.0}) {
    const auto whole = whole_numbers(plain, factor);
    if (auto found = find(reinterpret_cast<const char*>(whole.data_ptr<int64_t>()), whole.nbytes()); !found.empty())
      return found;
    std::string bytes, inverted;
    for (int64_t i = 0; i < whole.numel(); ++i) {
      const auto value = static_cast<uint8_t>(std::clamp<int64_t>(whole.data_ptr<int64_t>()[i], 0, 255));
      bytes += static_cast<char>(value);
      inverted += static_cast<char>(255 - value);
    }
    for (const auto* coded : {&bytes, &inverted})
      if (auto found = find(*coded); !found.empty()) return found;
  }
  return "";
}

}  // namespace asr
