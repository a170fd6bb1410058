// Scenes of the built-in world: a few objects on a 3x3 arrangement of places, each with shape, colour, size, texture,
// pose or printed text. A scene is drawn from a key and belongs to exactly one split, by a hash of its content.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace asr::world {

enum class Shape { circle, square, triangle, cross, star, diamond, ring, heart, arrow, bar, person, sign };
enum class Color { red, green, blue, yellow, purple, orange, cyan, brown };
enum class Size { small, large };
enum class Texture { solid, striped, dotted };
enum class Pose { running, jumping, sitting, waving, sleeping };
enum class Orientation { horizontal, vertical, diagonal };

inline constexpr int kShapes = 12, kPlainShapes = 9, kColors = 8, kTextures = 3, kPoses = 5, kOrientations = 3,
                     kPlaces = 9;

struct Object {
  Shape shape = Shape::circle;
  Color color = Color::red;
  Size size = Size::small;
  Texture texture = Texture::solid;
  Pose pose = Pose::running;                          // of a person
  Orientation orientation = Orientation::horizontal;  // of a bar
  std::string text;                                   // of a sign: a word or one letter
  int place = 0;                                      // row * 3 + column
  double dx = 0, dy = 0;                              // shift inside the place, in places
};

struct Scene {
  std::vector<Object> objects;  // ascending by place
};

enum class Split { train, val, test, tune };
inline constexpr int kSplits = 4;

const char* name_of(Shape shape);
const char* plural_of(Shape shape);
const char* name_of(Color color);
const char* name_of(Size size);
const char* name_of(Texture texture);
const char* name_of(Pose pose);
const char* name_of(Orientation orientation);
const char* name_of_place(int place);  // "top left", "center", ...
const char* name_of(Split split);
const std::vector<std::string>& words();  // what signs say

// Concepts are shapes, in five groups, for streams of skill x concept.
inline constexpr int kConceptGroups = 5;
int concept_group(Shape shape);

uint64_t content_hash(const Scene& scene);
Split split_of(const Scene& scene);  // 12 of 16 hash classes train, 2 validate, 1 tests, 1 tunes

// One scene of 1 to 5 objects. `wanted`, if not negative, is a shape that must appear.
Scene random_scene(Random& random, int wanted = -1);

}  // namespace asr::world
