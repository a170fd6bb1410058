// Referring to objects in words.
#pragma once

#include <string>
#include <vector>

#include "streams/world/scene.h"

namespace asr::world {

enum class Hide { nothing, color, shape, size, texture };

// A phrase that fits object `index` and no other, without naming the hidden attribute: "circle", "red circle", "small
// object". Empty when there is none. Shorter phrases are likelier, but not certain.
std::string describe(const Scene& scene, size_t index, Hide hide, Random& random);

std::string with_article(const std::string& phrase);  // "a circle", "an orange star"

// Indices in random order.
std::vector<size_t> shuffled(const Scene& scene, Random& random);
int count_of(const Scene& scene, Shape shape);

}  // namespace asr::world
