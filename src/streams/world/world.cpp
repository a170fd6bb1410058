#include "streams/world/world.h"

#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/text.h"
#include "streams/world/cue_streams.h"

namespace asr::world {
namespace {

uint64_t text_key(const std::string& text) {
  uint64_t key = 7;
  for (unsigned char c : text) key = Random::mix(key * 31 + c);
  return key;
}

Task type_task(Type type) {
  Task task;
  task.name = name_of(type);
  task.types = {type};
  return task;
}

std::vector<Task> one_task_a_type(const std::function<void(Task&, int)>& adjust) {
  std::vector<Task> tasks;
  for (int i = 0; i < kTypes; ++i) {
    tasks.push_back(type_task(static_cast<Type>(i)));
    adjust(tasks.back(), i);
  }
  return tasks;
}

std::vector<Task> instruction_tasks() {
  std::vector<Task> tasks;
  for (int i = 0; i < kFormats; ++i) {
    Task task;
    task.format = static_cast<Format>(i);
    task.name = name_of(*task.format);
    tasks.push_back(task);
  }
  return tasks;
}

std::vector<Task> domain_tasks() {
  std::vector<Task> tasks;
  for (Domain domain :
       {Domain::night, Domain::noisy, Domain::gradient, Domain::checker, Domain::pastel, Domain::sketch}) {
    Task task;
    task.name = name_of(domain);
    task.domain = domain;
    for (int i = 0; i < kTypes; ++i) task.types.push_back(static_cast<Type>(i));
    tasks.push_back(task);
  }
  return tasks;
}

// The shape a question needs in the scene, or -1.
int needed_shape(const Task& task, Type type, Random& random) {
  if (task.cue && task.cue->thing) return static_cast<int>(thing_of(*task.cue->thing));
  if (task.format) {
    return *task.format == Format::reading ? static_cast<int>(Shape::sign) : -1;
  }
  if (type == Type::activity) return static_cast<int>(Shape::person);
  if (type == Type::reading) return static_cast<int>(Shape::sign);
  if (type == Type::other && random.chance(0.5)) return static_cast<int>(Shape::bar);  // for questions of orientation
  return -1;
}

// Power-law acceptance: the rank of a concept and of an answer each cut the chance of being kept.
bool kept_by_long_tail(const Question& question, Random& random) {
  const double concept_rank = static_cast<double>(question.concept_shape),
               answer_rank = static_cast<double>(text_key(question.answer) % 8);
  return random.chance(std::pow(1 + concept_rank, -0.7)) && random.chance(std::pow(1 + answer_rank, -0.5));
}

bool allowed_concept(const Task& task, Shape shape, bool novel) {
  if (task.held_group < 0) return true;
  return (concept_group(shape) == task.held_group) == novel;
}

// Before any scene is drawn, so that shares do not depend on how rarely a question can be asked.
void choose_cue(const Task& task, Split split, Random& random, Sample& out) {
  out.cue = *task.cue;
  out.type = Type::color;
  if (!task.backgrounds.empty()) out.domain = random.pick(task.backgrounds);
  if (task.others.empty() || !random.chance(split == Split::train ? kStrangers : kCombined)) return;
  if (split == Split::train) {
    out.cue = random.pick(task.others);
    return;
  }
  std::vector<Cue> fitting;
  for (const auto& other : task.others)
    if (can_combine(*task.cue, other)) fitting.push_back(other);
  out.cue = combined(*task.cue, random.pick(fitting));
}

std::optional<Question> asked(const Task& task, const Sample& drawn, Random& random) {
  if (task.cue) return ask_cued(drawn.cue, task.phrasing, drawn.scene, random);
  return task.format ? instruct(*task.format, drawn.scene, random) : ask(drawn.type, drawn.scene, random);
}

Sample draw(const Task& task, Split split, bool novel, Random& random) {
  constexpr int kTries = 200000;
  Sample out;
  out.domain = task.domain;
  if (task.cue) choose_cue(task, split, random, out);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (!task.types.empty()) out.type = random.pick(task.types);
    out.scene = random_scene(random, needed_shape(task, out.type, random));
    if (split_of(out.scene) != split) continue;
    auto question = asked(task, out, random);
    if (!question || !allowed_concept(task, question->concept_shape, novel)) continue;
    if (task.long_tailed && split == Split::train && !kept_by_long_tail(*question, random)) continue;
    out.question = std::move(*question);
    return out;
  }
  fail("task '", task.name, "' has no ", novel ? "novel " : "", "samples in split ", name_of(split));
}

std::vector<Stream> plain_streams() {
  return {{"world-10", "ten question types, one a stage", one_task_a_type([](Task&, int) {})},
          // Activity and reading have one concept each, so nothing can be held out of them.
          {"world-sc", "skill x concept: each stage holds one concept group out, for novel compositions",
           one_task_a_type([](Task& task, int i) {
             if (task.types[0] != Type::activity && task.types[0] != Type::reading)
               task.held_group = i % kConceptGroups;
           })},
          {"world-lt", "ten question types, long-tailed in concepts and answers",
           one_task_a_type([](Task& task, int) { task.long_tailed = true; })},
          {"world-cit", "eight instruction tasks with their own formats and metrics", instruction_tasks()},
          {"world-domain", "all question types in each of six visual domains", domain_tasks()}};
}

}  // namespace

const std::vector<Stream>& streams() {
  static const std::vector<Stream> list = [] {
    auto out = plain_streams();
    for (auto& stream : cue_streams()) out.push_back(std::move(stream));
    return out;
  }();
  return list;
}

const Stream& stream(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& candidate : streams()) {
    if (candidate.name == name) return candidate;
    names.push_back(candidate.name);
  }
  fail("stream '", printable(name), "' is unknown", did_you_mean(name, names));
}

Sample sample(const Stream& stream, size_t task, Split split, uint64_t index, bool novel) {
  return sample(stream, task, {split, index, novel, 0});
}

Sample sample(const Stream& stream, size_t task, const SampleKey& key) {
  check(task < stream.tasks.size(), "stream ", stream.name, " has ", stream.tasks.size(), " tasks; there is no task ",
        task);
  const Task& spec = stream.tasks[task];
  check(!key.novel || spec.held_group >= 0, "task '", spec.name, "' of ", stream.name, " holds no concept group out");
  const uint64_t name = text_key(stream.name), split = static_cast<uint64_t>(key.split), novel = key.novel ? 1u : 0u;
  Random random = key.seed == 0 ? Random({kWorldVersion, name, task, split, key.index, novel})
                                : Random({kWorldVersion, name, task, split, key.index, novel, key.seed});
  return draw(spec, key.split, key.novel, random);
}

Image picture_of(const Sample& sample, int size) {
  auto image = render(sample.scene, sample.domain, size);
  if (sample.cue.hue) apply_hue(*sample.cue.hue, image);
  return image;
}

Sample pretraining_sample(uint64_t index) {
  static const std::vector<Task> formats = [] {
    auto tasks = instruction_tasks();
    for (auto& task : tasks) task.domain = Domain::plain;
    return tasks;
  }();
  static const Task types = [] {
    Task task;
    task.name = "pretraining";
    task.domain = Domain::plain;
    for (int i = 0; i < kTypes; ++i) task.types.push_back(static_cast<Type>(i));
    return task;
  }();
  Random random({kWorldVersion, text_key("pretraining"), index});
  const Task& task = random.chance(0.25) ? random.pick(formats) : types;
  auto out = draw(task, Split::train, false, random);
  if (random.chance(0.5)) out.domain = Domain::varied;
  return out;
}

}  // namespace asr::world
