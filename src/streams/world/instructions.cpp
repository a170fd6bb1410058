// Instruction tasks: the same scenes, asked for in other answer formats.
#include <algorithm>
#include <cmath>

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
                                       {"bounding_box", "iou50"}, {"caption", "caption7"}};

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
  }
  return std::nullopt;
}

}  // namespace asr::world
