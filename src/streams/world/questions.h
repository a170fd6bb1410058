// Questions about scenes: the paper's ten types, several templates each, and instruction formats. A question is asked
// only where its answer is unambiguous.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "streams/world/scene.h"

namespace asr::world {

enum class Type { count, color, location, comparison, attribute, activity, existence, reading, object, other };
inline constexpr int kTypes = 10;
const char* name_of(Type type);

// The instruction tasks of world-cit.
enum class Format { yes_no, letter_choice, class_name, short_answer, reading, counting, bounding_box, caption };
inline constexpr int kFormats = 8;
const char* name_of(Format format);
const char* metric_of(Format format);  // exact, letter, iou50 or caption7

struct Question {
  std::string text, answer;
  std::vector<std::string> references;  // further right answers, only for captions
  std::string skill;                    // that names it, by the taxonomy of skills/
  std::string second;                   // needed beside it, which other questions share; empty: none
  Shape concept_shape = Shape::circle;  // what it is about
};

std::optional<Question> ask(Type type, const Scene& scene, Random& random);
std::optional<Question> instruct(Format format, const Scene& scene, Random& random);

}  // namespace asr::world
