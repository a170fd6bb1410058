// Instruction tasks: the same scenes, asked for in other answer formats.
#include <algorithm>
#include <cmath>
#include <set>

#include "streams/world/phrases.h"
#include "streams/world/questions.h"
#include "streams/world/render.h"

namespace asr::world {
namespace {

struct FormatRow {
  const char *name, *metric;
};
constexpr FormatRow kRows[kFormats] = {{"yes_no", "exact"},       {"letter_choice", "letter"}, {"class_name", "exact"},
                                       {"short_answer", "exact"}, {"reading", "exact"},        {"counting", "exact"},
                                       {"bounding_box", "iou50"}, {"caption", "caption7"},     {"cell_code", "exact"},
                                       {"backwards", "exact"},    {"color_initials", "exact"}, {"record", "exact"},
                                       {"tally", "exact"},        {"alphabetical", "exact"}};

using Answer = std::optional<Question>;

Answer with_suffix(Answer question, const char* suffix) {
  if (question) question->text += suffix;
  return question;
}

Answer letter_choice(const Scene& scene, Random& random) {
  auto question = ask(Type::color, scene, random);
  if (!question) return question;
  std::vector<std::string> options = {question->answer};
  while (options.size() < 4) {
    const std::string color = name_of(static_cast<Color>(random.below(kColors)));
    if (std::find(options.begin(), options.end(), color) == options.end()) options.push_back(color);
  }
  random.shuffle(options);
  std::string list;
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i] == question->answer && question->answer.size() > 1)
      question->answer = std::string(1, static_cast<char>('A' + i));
    list += std::string(" ") + static_cast<char>('A' + i) + ". " + options[i];
  }
  question->text += list + " Answer with the letter of the right option.";
  return question;
}

std::string box_text(const Box& box) {
  const auto percent = [](double x) { return std::to_string(static_cast<int>(std::lround(x * 99))); };
  return "[" + percent(box.left) + "," + percent(box.top) + "," + percent(box.right) + "," + percent(box.bottom) + "]";
}

Answer bounding_box(const Scene& scene, Random& random) {
  const size_t i = random.below(static_cast<uint32_t>(scene.objects.size()));
  const auto phrase = describe(scene, i, Hide::nothing, random);
  if (phrase.empty()) return std::nullopt;
  return Question{"Give the box of the " + phrase + " as [left,top,right,bottom].",
                  box_text(box_of(scene.objects[i])),
                  {},
                  "grounding",
                  "location",
                  scene.objects[i].shape};
}

std::string sentence(const Scene& scene, const char* opening, bool with_size) {
  std::string out = opening;
  for (size_t i = 0; i < scene.objects.size(); ++i) {
    const auto& o = scene.objects[i];
    if (i > 0) out += i + 1 == scene.objects.size() ? " and " : ", ";
    std::string phrase = with_size ? std::string(name_of(o.size)) + " " : "";
    out += with_article(phrase + name_of(o.color) + " " + name_of(o.shape)) + " at the " + name_of_place(o.place);
  }
  return out;
}

Answer caption(const Scene& scene, Random& random) {
  const char* prompts[] = {"Describe the image.", "What does the image show?"};
  Question q{prompts[random.below(2)], sentence(scene, "", false), {}, "other", "object", scene.objects[0].shape};
  q.references = {q.answer, sentence(scene, "there is ", false), sentence(scene, "the image shows ", true)};
  return q;
}

struct AboutOne {
  const char *before, *after;  // the words around the object's description
  const std::string (*answer)(const Object&);
  const char *skill, *second;
};

Answer about_one(const Scene& scene, Random& random, const AboutOne& form) {
  const size_t i = random.below(static_cast<uint32_t>(scene.objects.size()));
  const auto phrase = describe(scene, i, Hide::nothing, random);
  if (phrase.empty()) return std::nullopt;
  const auto& object = scene.objects[i];
  return Question{form.before + phrase + form.after, form.answer(object), {}, form.skill, form.second, object.shape};
}

Answer backwards(const Scene& scene, Random&) {
  const Object* sign = nullptr;
  for (const auto& o : scene.objects)
    if (o.shape == Shape::sign && o.text.size() > 1) sign = sign ? sign : &o;
  if (!sign || count_of(scene, Shape::sign) != 1) return std::nullopt;
  return Question{"Spell the word on the sign backwards.",
                  std::string(sign->text.rbegin(), sign->text.rend()),
                  {},
                  "read",
                  "",
                  Shape::sign};
}

Answer color_initials(const Scene& scene, Random&) {
  std::string answer;
  for (const auto& o : scene.objects)
    answer += (answer.empty() ? "" : " ") + std::string(name_of(o.color)).substr(0, 2);
  return Question{
      "Give the first two letters of every color, row by row.", answer, {}, "color", "", scene.objects[0].shape};
}

Answer tally(const Scene& scene, Random& random) {
  const Shape shape =
      random.chance(0.15) ? static_cast<Shape>(random.below(kShapes)) : random.pick(scene.objects).shape;
  const int count = count_of(scene, shape);
  return Question{std::string("Count the ") + plural_of(shape) + " with tally marks.",
                  count ? std::string(count, '|') : "none",
                  {},
                  "count",
                  "",
                  shape};
}

Answer alphabetical(const Scene& scene, Random&) {
  std::set<std::string> names;
  for (const auto& o : scene.objects) names.insert(name_of(o.shape));
  std::string answer;
  for (const auto& name : names) answer += (answer.empty() ? "" : ", ") + name;
  return Question{
      "List every kind of object once, in alphabetical order.", answer, {}, "object", "", scene.objects[0].shape};
}

const std::string cell_code(const Object& o) {
  return std::string(1, static_cast<char>('A' + o.place % 3)) + std::to_string(o.place / 3 + 1);
}
const std::string record(const Object& o) {
  return std::string(name_of(o.color)) + "|" + name_of(o.shape) + "|" + name_of(o.size);
}

}  // namespace

const char* name_of(Format format) {
  return kRows[static_cast<int>(format)].name;
}
const char* metric_of(Format format) {
  return kRows[static_cast<int>(format)].metric;
}

std::optional<Question> instruct(Format format, const Scene& scene, Random& random) {
  switch (format) {
    case Format::yes_no:
      return with_suffix(ask(Type::existence, scene, random), " Answer yes or no.");
    case Format::letter_choice:
      return letter_choice(scene, random);
    case Format::class_name:
      return with_suffix(ask(Type::object, scene, random), " Answer with the name of the class.");
    case Format::short_answer:
      return with_suffix(ask(random.chance(0.5) ? Type::location : Type::attribute, scene, random),
                         " Answer with a word or a short phrase.");
    case Format::reading:
      return with_suffix(ask(Type::reading, scene, random), " Answer with the text alone.");
    case Format::counting:
      return with_suffix(ask(Type::count, scene, random), " Answer with a number.");
    case Format::bounding_box:
      return bounding_box(scene, random);
    case Format::caption:
      return caption(scene, random);
    case Format::cell_code:
      return about_one(
          scene, random,
          {"Name the cell of the ", " by column letter and row number.", cell_code, "location", "grounding"});
    case Format::backwards:
      return backwards(scene, random);
    case Format::color_initials:
      return color_initials(scene, random);
    case Format::record:
      return about_one(scene, random, {"Report the ", " as color|shape|size.", record, "attribute", "color"});
    case Format::tally:
      return tally(scene, random);
    case Format::alphabetical:
      return alphabetical(scene, random);
  }
  return std::nullopt;
}

}  // namespace asr::world
