// Cues: the same scene and the same form of question need another answer under each of them, so that what is learnt
// under one is wrong under another unless the cue is read. A rule moves the referent, a hue permutes the picture's
// colour channels and marks it with a border, a code renames the answer. A thing moves the referent as a rule does, but
// no word says so: the shape of one object in the picture does, wherever it lies and whatever its colour. Cues of
// different kinds may be combined.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "streams/world/questions.h"
#include "streams/world/render.h"

namespace asr::world {

enum class Way { leftmost, rightmost, topmost, bottommost, largest, smallest };
inline constexpr int kRules = 6;
const char* name_of(Way rule);
char letter_of(Way rule);  // 'A' for the first: "what color is the object, way A?"
// The one object that the rule names; none where two would do. Left and right are by column, size by name.
std::optional<size_t> referent(Way rule, const Scene& scene);

enum class Hue { rgb, grb, bgr, rbg, gbr, brg };  // which channel of the true picture each channel shows
inline constexpr int kHues = 6;
const char* name_of(Hue hue);
// Channels permuted, and the hue's border drawn over the edge.
void apply_hue(Hue hue, Image& image);

// Each code moves every colour word on to another, all of the same eight; the instruction names it by a word that
// signs in the pictures carry too.
inline constexpr int kCodes = 6;
const char* word_of_code(int code);
Color coded(int code, Color color);

// The shape that stands for a rule, once in a picture; none of the other five is in it.
inline constexpr int kThings = kRules;
Shape thing_of(Way rule);

struct Cue {
  std::optional<Way> rule;
  std::optional<Hue> hue;
  std::optional<int> code;   // 0 .. kCodes - 1
  std::optional<Way> thing;  // the rule that the thing stands for
  std::string name() const;  // "rule-leftmost", "hue-grb", "code-EAST", "thing-star"; joined by "+"
};
// Both at once. Two of one kind cannot be: they contradict each other. Rules and things are of one kind.
bool can_combine(const Cue& cue, const Cue& other);
Cue combined(const Cue& cue, const Cue& other);

// How a rule's question is worded: always alike, or in paraphrases that share nothing but the deciding letter.
enum class Phrasing { fixed, paraphrased };
// Colour or shape of what the rule names, else the colour of a described object; with a hue or a code always colour,
// and with a thing the colour of what its rule names among the other objects.
std::optional<Question> ask_cued(const Cue& cue, Phrasing phrasing, const Scene& scene, Random& random);

}  // namespace asr::world
