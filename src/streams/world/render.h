// Draws scenes at any size, in visual domains (styles) from plain to hard. The same scene, domain and size give the
// same pixels everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "streams/world/scene.h"

namespace asr::world {

enum class Domain {
  plain,
  night,
  noisy,
  gradient,
  checker,
  pastel,
  sketch,
  hard,
  varied
};  // varied is for pretraining
inline constexpr int kDomains = 9;
const char* name_of(Domain domain);

struct Image {
  int size = 0;                 // square
  std::vector<uint8_t> pixels;  // [size][size][3], RGB
};

Image render(const Scene& scene, Domain domain, int size);

// The object's box in a unit image: left, top, right, bottom in 0..1.
struct Box {
  double left, top, right, bottom;
};
Box box_of(const Object& object);

}  // namespace asr::world
