#include "streams/world/questions.h"

#include <functional>

#include "streams/world/phrases.h"

namespace asr::world {
namespace {

constexpr const char* kTypeNames[] = {"count",    "color",     "location", "comparison", "attribute",
                                      "activity", "existence", "reading",  "object",     "other"};

using Templates = std::vector<std::string>;

// One of the templates with each "%" replaced by the next argument.
std::string fill(const Templates& templates, Random& random, const std::vector<std::string>& arguments) {
  std::string out;
  size_t next = 0;
  for (char c : random.pick(templates)) {
    if (c == '%')
      out += arguments.at(next++);
    else
      out += c;
  }
  return out;
}

// `second` is the skill it needs beside the one that names it; "" for none.
Question made(std::string text, std::string answer, const char* skill, const char* second, Shape shape) {
  return {std::move(text), std::move(answer), {}, skill, second, shape};
}
const char* yes_no(bool yes) {
  return yes ? "yes" : "no";
}

// The first object, in random order, for which `ask_about` succeeds.
std::optional<Question> about_some(const Scene& scene, Random& random,
                                   const std::function<std::optional<Question>(size_t)>& ask_about) {
  for (size_t i : shuffled(scene, random))
    if (auto question = ask_about(i)) return question;
  return std::nullopt;
}

std::optional<Question> ask_count(const Scene& scene, Random& random) {
  const bool absent = random.chance(0.15);
  const Shape shape = absent ? static_cast<Shape>(random.below(kShapes)) : random.pick(scene.objects).shape;
  const std::string number = std::to_string(count_of(scene, shape));
  return made(fill({"how many % are there?", "how many % can you see?", "what is the number of % in the image?"},
                   random, {plural_of(shape)}),
              number, "count", "", shape);
}

std::optional<Question> ask_color(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto phrase = describe(scene, i, Hide::color, random);
    if (phrase.empty()) return std::nullopt;
    const auto& o = scene.objects[i];
    return made(
        fill({"what color is the %?", "what is the color of the %?", "which color does the % have?"}, random, {phrase}),
        name_of(o.color), "color", "grounding", o.shape);
  });
}

std::optional<Question> ask_location(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto phrase = describe(scene, i, Hide::nothing, random);
    if (phrase.empty()) return std::nullopt;
    const auto& o = scene.objects[i];
    return made(fill({"where is the %?", "in which part of the image is the %?", "what is the location of the %?"},
                     random, {phrase}),
                name_of_place(o.place), "location", "grounding", o.shape);
  });
}

std::optional<Question> compare_numbers(const Scene& scene, Random& random) {
  const Shape a = random.pick(scene.objects).shape, b = random.pick(scene.objects).shape;
  const int difference = count_of(scene, a) - count_of(scene, b);
  if (a == b || difference == 0) return std::nullopt;
  return made(fill({"are there more % than %?", "is the number of % larger than the number of %?"}, random,
                   {plural_of(a), plural_of(b)}),
              yes_no(difference > 0), "compare-number", "count", a);
}

std::optional<Question> compare_attributes(const Scene& scene, Random& random) {
  const auto order = shuffled(scene, random);
  const auto &a = scene.objects[order[0]], &b = scene.objects[order[1]];
  const bool by_size = random.chance(0.4) && a.size != b.size && a.shape != b.shape && count_of(scene, a.shape) == 1 &&
                       count_of(scene, b.shape) == 1 && a.shape != Shape::person && a.shape != Shape::sign &&
                       b.shape != Shape::person && b.shape != Shape::sign;
  if (by_size)
    return made(fill({"which is larger, the % or the %?", "compare the % and the %: which one is bigger?"}, random,
                     {name_of(a.shape), name_of(b.shape)}),
                name_of(a.size == Size::large ? a.shape : b.shape), "compare-attribute", "attribute", a.shape);
  const auto first = describe(scene, order[0], Hide::color, random),
             second = describe(scene, order[1], Hide::color, random);
  if (first.empty() || second.empty()) return std::nullopt;
  const bool same = a.color == b.color;
  if (!same && random.chance(0.4)) return std::nullopt;  // equal colours are rarer; keep the answers near balance
  return made(fill({"do the % and the % have the same color?", "is the color of the % the same as that of the %?"},
                   random, {first, second}),
              yes_no(same), "compare-attribute", "color", a.shape);
}

std::optional<Question> ask_comparison(const Scene& scene, Random& random) {
  return random.chance(0.5) ? compare_numbers(scene, random) : compare_attributes(scene, random);
}

std::optional<Question> ask_attribute(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto& o = scene.objects[i];
    const bool plain = static_cast<int>(o.shape) < kPlainShapes;
    const int kind = random.between(0, 2);
    if (kind == 0 && plain) {
      const auto phrase = describe(scene, i, Hide::size, random);
      if (!phrase.empty())
        return made(fill({"what size is the %?", "is the % small or large in size?"}, random, {phrase}),
                    name_of(o.size), "attribute", "grounding", o.shape);
    } else if (kind == 1 && plain) {
      const auto phrase = describe(scene, i, Hide::texture, random);
      if (!phrase.empty())
        return made(
            fill({"what kind of texture does the % have?", "what type of pattern is on the %?"}, random, {phrase}),
            name_of(o.texture), "fine-grained", "grounding", o.shape);
    } else {
      const auto phrase = describe(scene, i, Hide::shape, random);
      if (!phrase.empty())
        return made(fill({"what shape is the %?", "what is the shape of the %?"}, random, {phrase}), name_of(o.shape),
                    "object", "grounding", o.shape);
    }
    return std::nullopt;
  });
}

std::optional<Question> ask_activity(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto& o = scene.objects[i];
    if (o.shape != Shape::person) return std::nullopt;
    const auto phrase = describe(scene, i, Hide::nothing, random);
    if (phrase.empty()) return std::nullopt;
    return made(fill({"what is the % doing?", "which activity is the % engaged in?", "what activity does the % show?"},
                     random, {phrase}),
                name_of(o.pose), "activity", "grounding", o.shape);
  });
}

bool exists(const Scene& scene, const Object& wanted, bool with_color) {
  for (const auto& o : scene.objects)
    if (o.shape == wanted.shape && (!with_color || o.color == wanted.color)) return true;
  return false;
}

std::optional<Question> ask_existence(const Scene& scene, Random& random) {
  const bool present = random.chance(0.5), with_color = random.chance(0.7);
  Object o = random.pick(scene.objects);
  // Something absent differs from something present in one attribute only, so that a glance does not suffice.
  while (exists(scene, o, with_color) != present) {
    o = random.pick(scene.objects);
    if (with_color && random.chance(0.5))
      o.color = static_cast<Color>(random.below(kColors));
    else
      o.shape = static_cast<Shape>(random.below(kShapes));
  }
  const std::string phrase = (with_color ? std::string(name_of(o.color)) + " " : "") + name_of(o.shape);
  return made(fill({"is there %?", "do you see %?", "does the image show %?"}, random, {with_article(phrase)}),
              yes_no(present), "existence", with_color ? "color" : "", o.shape);
}

std::optional<Question> ask_reading(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto& o = scene.objects[i];
    if (o.shape != Shape::sign) return std::nullopt;
    const auto phrase = describe(scene, i, Hide::nothing, random);
    if (phrase.empty()) return std::nullopt;
    if (o.text.size() == 1)
      return made(fill({"what letter is printed on the %?", "which letter does the % show?"}, random, {phrase}), o.text,
                  "read", "grounding", o.shape);
    if (random.chance(0.25))
      return made(
          fill({"what is the first letter on the %?", "read the first letter printed on the %"}, random, {phrase}),
          o.text.substr(0, 1), "read", "grounding", o.shape);
    return made(
        fill({"what word is printed on the %?", "what does the % say?", "read the text on the %"}, random, {phrase}),
        o.text, "read", "grounding", o.shape);
  });
}

std::optional<Question> ask_object(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto& o = scene.objects[i];
    if (random.chance(0.6))
      return made(
          fill({"what is in the % of the image?", "which object is at the %?"}, random, {name_of_place(o.place)}),
          name_of(o.shape), "grounding", "object", o.shape);
    const auto phrase = describe(scene, i, Hide::shape, random);
    if (phrase.empty()) return std::nullopt;
    return made(fill({"what is the %?", "name the %"}, random, {phrase}), name_of(o.shape), "object", "grounding",
                o.shape);
  });
}

std::optional<Question> ask_neighbour(const Scene& scene, Random& random) {
  static const struct {
    const char* words;
    int row, column;
  } sides[] = {{"left of", 0, -1}, {"right of", 0, 1}, {"above", -1, 0}, {"below", 1, 0}};
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto& side = sides[random.below(4)];
    const int row = scene.objects[i].place / 3 + side.row, column = scene.objects[i].place % 3 + side.column;
    const auto phrase = describe(scene, i, Hide::nothing, random);
    if (phrase.empty() || row < 0 || row > 2 || column < 0 || column > 2) return std::nullopt;
    for (const auto& o : scene.objects)
      if (o.place == row * 3 + column)
        return made(fill({"what is directly % the %?", "which object is right next to, %, the %?"}, random,
                         {side.words, phrase}),
                    name_of(o.shape), "relation", "object", o.shape);
    return std::nullopt;
  });
}

std::optional<Question> ask_spatial(const Scene& scene, Random& random) {
  const auto order = shuffled(scene, random);
  const auto &a = scene.objects[order[0]], &b = scene.objects[order[1]];
  const auto first = describe(scene, order[0], Hide::nothing, random),
             second = describe(scene, order[1], Hide::nothing, random);
  const bool sideways = random.chance(0.5);
  const int difference = sideways ? a.place % 3 - b.place % 3 : a.place / 3 - b.place / 3;
  if (first.empty() || second.empty() || difference == 0) return std::nullopt;
  const bool forward = random.chance(0.5);  // asked with "left of"/"above", or with the opposite
  const std::string relation =
      sideways ? (forward ? "to the left of" : "to the right of") : (forward ? "above" : "below");
  return made(fill({"is the % % the %?"}, random, {first, relation, second}), yes_no(forward == (difference < 0)),
              "spatial", "location", a.shape);
}

std::optional<Question> ask_orientation(const Scene& scene, Random& random) {
  return about_some(scene, random, [&](size_t i) -> std::optional<Question> {
    const auto& o = scene.objects[i];
    const auto phrase = describe(scene, i, Hide::nothing, random);
    if (o.shape != Shape::bar || phrase.empty()) return std::nullopt;
    return made(fill({"what is the orientation of the %?", "which way does the % run?"}, random, {phrase}),
                name_of(o.orientation), "attribute", "grounding", o.shape);
  });
}

std::optional<Question> ask_other(const Scene& scene, Random& random) {
  const int kind = random.between(0, 2);
  return kind == 0   ? ask_neighbour(scene, random)
         : kind == 1 ? ask_spatial(scene, random)
                     : ask_orientation(scene, random);
}

}  // namespace

const char* name_of(Type type) {
  return kTypeNames[static_cast<int>(type)];
}

std::optional<Question> ask(Type type, const Scene& scene, Random& random) {
  switch (type) {
    case Type::count:
      return ask_count(scene, random);
    case Type::color:
      return ask_color(scene, random);
    case Type::location:
      return ask_location(scene, random);
    case Type::comparison:
      return ask_comparison(scene, random);
    case Type::attribute:
      return ask_attribute(scene, random);
    case Type::activity:
      return ask_activity(scene, random);
    case Type::existence:
      return ask_existence(scene, random);
    case Type::reading:
      return ask_reading(scene, random);
    case Type::object:
      return ask_object(scene, random);
    case Type::other:
      return ask_other(scene, random);
  }
  return std::nullopt;
}

}  // namespace asr::world
