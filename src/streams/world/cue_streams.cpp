#include "streams/world/cue_streams.h"

namespace asr::world {
namespace {

constexpr int kStages = 6;

Cue by_rule(int number) {
  Cue cue;
  cue.rule = static_cast<Way>(number);
  return cue;
}
Cue by_hue(int number) {
  Cue cue;
  cue.hue = static_cast<Hue>(number);
  return cue;
}
Cue by_code(int number) {
  Cue cue;
  cue.code = number;
  return cue;
}

Cue by_thing(int number) {
  Cue cue;
  cue.thing = static_cast<Way>(number);
  return cue;
}

Task cue_task(const Cue& cue) {
  Task task;
  task.name = cue.name();
  task.cue = cue;
  // Hard enough to learn together where colours and shapes are easy to see.
  if (cue.code || cue.thing) task.domain = Domain::plain;
  return task;
}

std::vector<Task> tasks_by(Cue (*make)(int)) {
  std::vector<Task> out;
  for (int i = 0; i < kStages; ++i) out.push_back(cue_task(make(i)));
  return out;
}

// All eighteen cues in visual domains, and six stages that have the cue of an earlier one: three in another domain,
// three in its own.
std::vector<Task> mixed_tasks() {
  using D = Domain;
  const struct {
    Cue cue;
    Domain domain;
  } stages[] = {{by_rule(0), D::hard},     {by_hue(1), D::hard},     {by_code(0), D::plain},     //
                {by_rule(1), D::night},    {by_hue(2), D::checker},  {by_code(1), D::pastel},    //
                {by_rule(2), D::hard},     {by_hue(3), D::night},    {by_code(2), D::gradient},  //
                {by_rule(0), D::night},    {by_hue(1), D::hard},     {by_code(0), D::pastel},    //
                {by_rule(3), D::checker},  {by_hue(4), D::gradient}, {by_code(3), D::plain},     //
                {by_rule(1), D::night},    {by_hue(2), D::noisy},    {by_code(4), D::noisy},     //
                {by_rule(4), D::gradient}, {by_hue(5), D::pastel},   {by_code(1), D::pastel},    //
                {by_rule(5), D::noisy},    {by_hue(0), D::checker},  {by_code(5), D::checker}};
  std::vector<Task> out;
  for (const auto& stage : stages) {
    auto task = cue_task(stage.cue);
    task.domain = stage.domain;
    task.name += std::string("-") + name_of(stage.domain);
    for (const auto& earlier : out)
      if (earlier.name == task.name) task.name += "-again";
    out.push_back(std::move(task));
  }
  return out;
}

// Each background serves three stages.
std::vector<Task> faint_tasks() {
  constexpr Domain grounds[kStages] = {Domain::night,   Domain::noisy,  Domain::gradient,
                                       Domain::checker, Domain::pastel, Domain::hard};
  auto out = tasks_by(by_rule);
  for (int i = 0; i < kStages; ++i) {
    auto& task = out[static_cast<size_t>(i)];
    task.phrasing = Phrasing::paraphrased;
    for (int k = 0; k < 3; ++k) task.backgrounds.push_back(grounds[(i + k) % kStages]);
  }
  return out;
}

std::vector<Task> blurred_tasks() {
  std::vector<Task> out;
  for (const auto& cue : {by_rule(0), by_hue(1), by_code(0), by_rule(2), by_hue(2), by_code(2)})
    out.push_back(cue_task(cue));
  for (auto& task : out) {
    task.domain = Domain::plain;  // the same for all: rows of other kinds must not be told by their looks
    for (const auto& other : out)
      if (other.name != task.name) task.others.push_back(*other.cue);
  }
  return out;
}

}  // namespace

std::vector<Stream> cue_streams() {
  return {
      {"world-rule", "color and shape of the object, way A to F: each way means another object", tasks_by(by_rule)},
      {"world-hue", "colors in pictures with permuted channels, a border telling which", tasks_by(by_hue)},
      {"world-code", "colors under other names, a word of the question telling which", tasks_by(by_code)},
      {"world-thing", "the color of the object, the shape of another object telling which is meant",
       tasks_by(by_thing)},
      {"world-24", "24 stages of rules, hues and codes in visual domains; some resemble or repeat earlier ones",
       mixed_tasks()},
      {"world-cue", "rules with a faint cue: one letter in paraphrases, backgrounds shared by stages", faint_tasks()},
      {"world-blur", "rules, hues and codes with 30 % of other stages' kinds in training; tests may combine two",
       blurred_tasks()}};
}

}  // namespace asr::world
