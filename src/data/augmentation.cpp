#include "data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"

namespace asr {
namespace {

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) {
      word += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else if (!word.empty()) {
      out.insert(word);
      word.clear();
    }
  }
  return out;
}

bool any_of(const std::set<std::string>& words, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* word) { return words.count(word) > 0; });
}

bool has_digit(const std::set<std::string>& words) {
  for (const auto& word : words)
    if (word.find_first_of("0123456789") != std::string::npos) return true;
  return false;
}

}  // namespace

AllowedAugmentation allowed_augmentation(const std::string& question, const std::string& answer) {
  const auto asked = words_of(question), said = words_of(answer);
  AllowedAugmentation out;
  // A mirrored picture changes sides, and nobody can read it.
  const auto sides = {"left", "right", "side", "facing", "direction", "clockwise", "east", "west", "box", "region"};
  const auto text = {"read",   "reading", "text", "word",  "words",   "letter", "letters", "written",
                     "write",  "say",     "says", "said",  "sign",    "brand",  "name",    "title",
                     "number", "numbers", "time", "clock", "license", "plate",  "spell",   "printed",
                     "logo",   "caption", "ocr",  "digit", "digits"};
  const auto boxed = answer.find('[') != std::string::npos;
  out.flip = !any_of(asked, sides) && !any_of(said, sides) && !any_of(asked, text) && !boxed;
  // What a crop cuts away cannot be counted, found or seen.
  out.crop = !any_of(asked, {"many",   "count", "number", "where",   "location", "located",    "position", "part",
                             "corner", "there", "any",    "visible", "see",      "show",       "shown",    "all",
                             "edge",   "top",   "bottom", "left",    "right",    "background", "far",      "box",
                             "region", "more",  "fewer",  "less",    "most"}) &&
             !any_of(said, {"left", "right", "top", "bottom", "corner", "none", "no"}) && !boxed && !has_digit(said) &&
             !any_of(asked, text);
  return out;
}

Image8 flipped(const Image8& image) {
  auto out = image;
  const auto width = static_cast<size_t>(image.width);
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y)
    for (size_t x = 0; x < width; ++x)
      for (size_t c = 0; c < 3; ++c) out.rgb[(y * width + x) * 3 + c] = image.rgb[(y * width + width - 1 - x) * 3 + c];
  return out;
}

Image8 cropped(const Image8& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image8 out{height, width, {}};
  out.rgb.reserve(static_cast<size_t>(height * width * 3));
  for (int64_t y = 0; y < height; ++y) {
    const auto row = image.rgb.begin() + ((top + y) * image.width + left) * 3;
    out.rgb.insert(out.rgb.end(), row, row + width * 3);
  }
  return out;
}

Image8 augmented(Image8 image, const AllowedAugmentation& allowed, uint64_t key) {
  Random random({key, 0xa06});
  const bool flip = random.chance(0.5);
  const double kept = 0.8 + 0.2 * random.uniform();
  const auto part = [&](int64_t side) { return std::max<int64_t>(1, std::llround(kept * static_cast<double>(side))); };
  const int64_t height = part(image.height), width = part(image.width);
  const auto top = static_cast<int64_t>(random.next() % static_cast<uint64_t>(image.height - height + 1));
  const auto left = static_cast<int64_t>(random.next() % static_cast<uint64_t>(image.width - width + 1));
  if (allowed.crop) image = cropped(image, top, left, height, width);
  return allowed.flip && flip ? flipped(image) : image;
}

}  // namespace asr
