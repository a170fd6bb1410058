#include "streams/world/labelled.h"

#include "skills/taxonomy.h"

namespace asr::world {

namespace {

// Two thirds on the skill that names the question, so that the largest is never a tie.
constexpr float kFirstShare = 2.0f / 3;

LabelledQuestion labelled(const Question& question) {
  LabelledQuestion out{question.text, skill_index(question.skill), {}};
  if (question.second.empty()) return out;
  out.target.assign(skill_names().size(), 0);
  out.target[static_cast<size_t>(out.skill)] = kFirstShare;
  out.target[static_cast<size_t>(skill_index(question.second))] = 1 - kFirstShare;
  return out;
}

}  // namespace

std::vector<LabelledQuestion> labelled_questions(Split split, int64_t per_task) {
  std::vector<LabelledQuestion> out;
  const auto add = [&](const Sample& s) { out.push_back(labelled(s.question)); };
  for (const auto& stream : streams()) {
    if (stream.tasks[0].cue) continue;
    for (size_t task = 0; task < stream.tasks.size(); ++task)
      for (int64_t i = 0; i < per_task; ++i) add(sample(stream, task, split, static_cast<uint64_t>(i)));
  }
  if (split == Split::train)
    for (int64_t i = 0; i < 10 * per_task; ++i) add(pretraining_sample(static_cast<uint64_t>(i)));
  return out;
}

}  // namespace asr::world
