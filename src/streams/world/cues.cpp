#include "streams/world/cues.h"

#include <algorithm>

#include "base/error.h"

namespace asr::world {
namespace {

constexpr const char* kRuleNames[kRules] = {"leftmost", "rightmost", "topmost", "bottommost", "largest", "smallest"};
constexpr Shape kThingShapes[kThings] = {Shape::star, Shape::cross, Shape::heart,
                                         Shape::ring, Shape::arrow, Shape::diamond};
constexpr const char* kCodeWords[kCodes] = {"EAST", "BANK", "TAXI", "MENU", "STOP", "CAFE"};

// Lower is more so: -column for the rightmost, and so on.
int rank_by(Way rule, const Object& o) {
  switch (rule) {
    case Way::leftmost:
      return o.place % 3;
    case Way::rightmost:
      return -(o.place % 3);
    case Way::topmost:
      return o.place / 3;
    case Way::bottommost:
      return -(o.place / 3);
    case Way::largest:
      return o.size == Size::large ? 0 : 1;
    case Way::smallest:
      return o.size == Size::small ? 0 : 1;
  }
  return 0;
}

// "%" is the property, "@" the deciding letter. All words are ones that the base has read.
std::string worded(Phrasing phrasing, const char* property, char letter, Random& random) {
  static const std::vector<std::string> paraphrases = {
      "what % is the object, way @?",       "way @: what is the % of the object?",
      "which % does the object @ have?",    "name the % of the object, read the @ way",
      "see type @: what % is the object?",  "the object of kind @ is of which %?",
      "what is, in the image, the % of @?", "do you see @? what is the %?"};
  std::string out;
  for (const char c : phrasing == Phrasing::fixed ? paraphrases[0] : random.pick(paraphrases)) {
    if (c == '%')
      out += property;
    else
      out += c == '@' ? letter : c;
  }
  return out;
}

std::optional<Question> ask_by_rule(const Cue& cue, Phrasing phrasing, const Scene& scene, Random& random) {
  const auto index = referent(*cue.rule, scene);
  if (!index) return std::nullopt;
  const auto& o = scene.objects[*index];
  const bool color = cue.hue || cue.code || random.chance(0.5);
  Question out;
  out.text = worded(phrasing, color ? "color" : "shape", letter_of(*cue.rule), random);
  out.answer = color ? name_of(o.color) : name_of(o.shape);
  out.skill = color ? "color" : "object";
  out.second = "grounding";
  out.concept_shape = o.shape;
  return out;
}

std::optional<Question> ask_by_thing(Way rule, const Scene& scene) {
  Scene others;
  int things = 0;
  for (const auto& o : scene.objects) {
    const bool thing = std::find(kThingShapes, kThingShapes + kThings, o.shape) != kThingShapes + kThings;
    if (thing && o.shape != thing_of(rule)) return std::nullopt;
    things += thing;
    if (!thing) others.objects.push_back(o);
  }
  if (things != 1 || others.objects.size() < 2) return std::nullopt;
  const auto index = referent(rule, others);
  if (!index) return std::nullopt;
  const auto& o = others.objects[*index];
  Question out;
  out.text = "what color is the object?";
  out.answer = name_of(o.color);
  out.skill = "color";
  out.second = "grounding";
  out.concept_shape = o.shape;
  return out;
}

Color color_named(const std::string& name) {
  for (int i = 0; i < kColors; ++i)
    if (name == name_of(static_cast<Color>(i))) return static_cast<Color>(i);
  fail("'", name, "' is no colour of the world");
}

}  // namespace

const char* name_of(Way rule) {
  return kRuleNames[static_cast<int>(rule)];
}

char letter_of(Way rule) {
  return static_cast<char>('A' + static_cast<int>(rule));
}

std::optional<size_t> referent(Way rule, const Scene& scene) {
  size_t best = 0;
  int equal = 0;
  for (size_t i = 0; i < scene.objects.size(); ++i) {
    const int rank = rank_by(rule, scene.objects[i]), least = rank_by(rule, scene.objects[best]);
    if (rank < least) {
      best = i;
      equal = 0;
    }
    equal += rank == rank_by(rule, scene.objects[best]);
  }
  const bool by_size = rule == Way::largest || rule == Way::smallest;
  if (equal != 1 || (by_size && rank_by(rule, scene.objects[best]) != 0)) return std::nullopt;
  return best;
}

Shape thing_of(Way rule) {
  return kThingShapes[static_cast<int>(rule)];
}

const char* word_of_code(int code) {
  return kCodeWords[code];
}

Color coded(int code, Color color) {
  return static_cast<Color>((static_cast<int>(color) + code + 1) % kColors);
}

std::string Cue::name() const {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : "+") + part; };
  if (rule) add(cat("rule-", name_of(*rule)));
  if (hue) add(cat("hue-", name_of(*hue)));
  if (code) add(cat("code-", word_of_code(*code)));
  if (thing) add(cat("thing-", name_of(thing_of(*thing))));
  return out;
}

bool can_combine(const Cue& cue, const Cue& other) {
  const bool both_move = (cue.rule || cue.thing) && (other.rule || other.thing);
  return !both_move && !(cue.hue && other.hue) && !(cue.code && other.code);
}

Cue combined(const Cue& cue, const Cue& other) {
  check(can_combine(cue, other), "cues ", cue.name(), " and ", other.name(),
        " are of one kind; combine different ones");
  return {cue.rule ? cue.rule : other.rule, cue.hue ? cue.hue : other.hue, cue.code ? cue.code : other.code,
          cue.thing ? cue.thing : other.thing};
}

std::optional<Question> ask_cued(const Cue& cue, Phrasing phrasing, const Scene& scene, Random& random) {
  auto out = cue.thing  ? ask_by_thing(*cue.thing, scene)
             : cue.rule ? ask_by_rule(cue, phrasing, scene, random)
                        : ask(Type::color, scene, random);
  if (!out || !cue.code) return out;
  out->answer = name_of(coded(*cue.code, color_named(out->answer)));
  out->text += cat(" Answer with ", word_of_code(*cue.code), ".");
  return out;
}

}  // namespace asr::world
