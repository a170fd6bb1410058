#include "streams/world/labelled.h"

#include "skills/taxonomy.h"

namespace asr::world {

std::vector<LabelledQuestion> labelled_questions(Split split, int64_t per_task) {
  std::vector<LabelledQuestion> out;
  const auto add = [&](const Sample& s) { out.push_back({s.question.text, skill_index(s.question.skill)}); };
  for (const auto& stream : streams())
    for (size_t task = 0; task < stream.tasks.size(); ++task)
      for (int64_t i = 0; i < per_task; ++i) add(sample(stream, task, split, static_cast<uint64_t>(i)));
  if (split == Split::train)
    for (int64_t i = 0; i < 10 * per_task; ++i) add(pretraining_sample(static_cast<uint64_t>(i)));
  return out;
}

}  // namespace asr::world
