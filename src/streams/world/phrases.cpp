#include "streams/world/phrases.h"

namespace asr::world {
namespace {

struct Wording {
  bool color, size, texture, shape;
};

bool fits(const Object& candidate, const Object& o, const Wording& w) {
  return (!w.color || candidate.color == o.color) && (!w.size || candidate.size == o.size) &&
         (!w.texture || candidate.texture == o.texture) && (!w.shape || candidate.shape == o.shape);
}

std::string spell(const Object& o, const Wording& w) {
  std::string out;
  if (w.size) out += std::string(name_of(o.size)) + " ";
  if (w.texture) out += std::string(name_of(o.texture)) + " ";
  if (w.color) out += std::string(name_of(o.color)) + " ";
  return out + (w.shape ? name_of(o.shape) : "object");
}

}  // namespace

std::string describe(const Scene& scene, size_t index, Hide hide, Random& random) {
  const Object& o = scene.objects[index];
  std::vector<std::string> phrases;
  for (int bits = 1; bits < 16; ++bits) {
    const Wording w{(bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 1) != 0};
    if ((w.color && hide == Hide::color) || (w.shape && hide == Hide::shape) || (w.size && hide == Hide::size) ||
        (w.texture && hide == Hide::texture))
      continue;
    if (w.texture && static_cast<int>(o.shape) >= kPlainShapes) continue;  // only plain shapes have a texture
    if (w.size && (o.shape == Shape::person || o.shape == Shape::sign)) continue;
    if (!w.shape && hide != Hide::shape && !w.color) continue;
    if (w.color + w.size + w.texture > 2) continue;
    int matches = 0;
    for (const auto& other : scene.objects) matches += fits(other, o, w);
    if (matches == 1) phrases.push_back(spell(o, w));
  }
  if (phrases.empty()) return "";
  return random.chance(0.6) ? phrases.front() : random.pick(phrases);
}

std::string with_article(const std::string& phrase) {
  const bool vowel = !phrase.empty() && std::string("aeiou").find(phrase[0]) != std::string::npos;
  return (vowel ? "an " : "a ") + phrase;
}

std::vector<size_t> shuffled(const Scene& scene, Random& random) {
  std::vector<size_t> order;
  for (size_t i = 0; i < scene.objects.size(); ++i) order.push_back(i);
  random.shuffle(order);
  return order;
}

int count_of(const Scene& scene, Shape shape) {
  int count = 0;
  for (const auto& o : scene.objects) count += o.shape == shape;
  return count;
}

}  // namespace asr::world
