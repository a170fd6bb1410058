#include "streams/world/scene.h"

#include <algorithm>

namespace asr::world {
namespace {

constexpr const char* kShapeNames[][2] = {{"circle", "circles"}, {"square", "squares"}, {"triangle", "triangles"},
                                          {"cross", "crosses"},  {"star", "stars"},     {"diamond", "diamonds"},
                                          {"ring", "rings"},     {"heart", "hearts"},   {"arrow", "arrows"},
                                          {"bar", "bars"},       {"person", "people"},  {"sign", "signs"}};
constexpr const char* kColorNames[] = {"red", "green", "blue", "yellow", "purple", "orange", "cyan", "brown"};
constexpr const char* kTextureNames[] = {"solid", "striped", "dotted"};
constexpr const char* kPoseNames[] = {"running", "jumping", "sitting", "waving", "sleeping"};
constexpr const char* kOrientationNames[] = {"horizontal", "vertical", "diagonal"};
constexpr const char* kPlaceNames[] = {"top left", "top",         "top right", "left",        "center",
                                       "right",    "bottom left", "bottom",    "bottom right"};
constexpr const char* kSplitNames[] = {"train", "val", "test", "tune"};

Object random_object(Random& random, Shape shape, const std::vector<Color>& colors) {
  Object o;
  o.shape = shape;
  o.color = random.pick(colors);
  o.size = random.chance(0.5) ? Size::large : Size::small;
  if (static_cast<int>(shape) < kPlainShapes) o.texture = static_cast<Texture>(random.below(kTextures));
  if (shape == Shape::person) o.pose = static_cast<Pose>(random.below(kPoses));
  if (shape == Shape::bar) o.orientation = static_cast<Orientation>(random.below(kOrientations));
  if (shape == Shape::sign) {
    o.text = random.chance(0.3) ? std::string(1, static_cast<char>('A' + random.below(26))) : random.pick(words());
    o.size = Size::large;  // small print would not survive the smallest images
  }
  if (shape == Shape::person) o.size = Size::large;
  const double room = o.size == Size::large ? 0.05 : 0.2;  // a large object fills its place
  o.dx = (random.uniform() * 2 - 1) * room;
  o.dy = (random.uniform() * 2 - 1) * room;
  return o;
}

}  // namespace

const char* name_of(Shape shape) {
  return kShapeNames[static_cast<int>(shape)][0];
}
const char* plural_of(Shape shape) {
  return kShapeNames[static_cast<int>(shape)][1];
}
const char* name_of(Color color) {
  return kColorNames[static_cast<int>(color)];
}
const char* name_of(Size size) {
  return size == Size::small ? "small" : "large";
}
const char* name_of(Texture texture) {
  return kTextureNames[static_cast<int>(texture)];
}
const char* name_of(Pose pose) {
  return kPoseNames[static_cast<int>(pose)];
}
const char* name_of(Orientation orientation) {
  return kOrientationNames[static_cast<int>(orientation)];
}
const char* name_of_place(int place) {
  return kPlaceNames[place];
}
const char* name_of(Split split) {
  return kSplitNames[static_cast<int>(split)];
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> list = {"CAT",  "DOG",  "SUN",  "BUS",  "EXIT", "STOP", "OPEN", "TAXI",
                                                "CAFE", "BANK", "SHOP", "PARK", "MENU", "SALE", "WEST", "EAST",
                                                "GO",   "UP",   "IN",   "ON",   "KEY",  "BOX",  "TEA",  "ICE"};
  return list;
}

int concept_group(Shape shape) {
  constexpr int groups[kShapes] = {0, 1, 1, 2, 2, 1, 0, 2, 3, 3, 4, 4};
  return groups[static_cast<int>(shape)];
}

uint64_t content_hash(const Scene& scene) {
  uint64_t hash = 17;
  for (const auto& o : scene.objects) {
    // Position inside a place is left out: two scenes that differ only by a few pixels count as one.
    for (int value : {static_cast<int>(o.shape), static_cast<int>(o.color), static_cast<int>(o.size),
                      static_cast<int>(o.texture), static_cast<int>(o.pose), static_cast<int>(o.orientation), o.place})
      hash = Random::mix(hash * 31 + static_cast<uint64_t>(value) + 1);
    for (char c : o.text) hash = Random::mix(hash * 31 + static_cast<unsigned char>(c));
  }
  return hash;
}

Split split_of(const Scene& scene) {
  const uint64_t bucket = content_hash(scene) >> 60;
  return bucket < 12 ? Split::train : bucket < 14 ? Split::val : bucket < 15 ? Split::test : Split::tune;
}

Scene random_scene(Random& random, int wanted) {
  Scene scene;
  std::vector<int> places;
  for (int i = 0; i < kPlaces; ++i) places.push_back(i);
  random.shuffle(places);
  const int count = random.between(2, 5);
  // Few different shapes and colours a scene, so that counting and comparing have something to do.
  std::vector<Shape> palette;
  std::vector<Color> colors;
  for (int i = 0; i < 3; ++i) palette.push_back(static_cast<Shape>(random.below(kShapes)));
  for (int i = 0; i < 3; ++i) colors.push_back(static_cast<Color>(random.below(kColors)));
  if (wanted >= 0) palette[0] = static_cast<Shape>(wanted);
  for (int i = 0; i < count; ++i) {
    scene.objects.push_back(random_object(random, i == 0 ? palette[0] : random.pick(palette), colors));
    scene.objects.back().place = places[i];
  }
  std::sort(scene.objects.begin(), scene.objects.end(),
            [](const Object& a, const Object& b) { return a.place < b.place; });
  return scene;
}

}  // namespace asr::world
