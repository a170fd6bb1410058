// The built-in world behind the interface of every stream.
#include <algorithm>

#include "base/error.h"
#include "streams/stream.h"
#include "streams/world/world.h"

namespace asr {
namespace {

// The longest answers in pieces of the built-in tokenizer, with room: a caption names five objects.
int64_t answer_tokens(const world::Task& task) {
  if (!task.format) return 8;
  switch (*task.format) {
    case world::Format::caption:
      return 56;
    case world::Format::bounding_box:
      return 12;
    default:
      return 8;
  }
}

StreamSample text_of_sample(const world::Sample& s, const std::string& id) {
  StreamSample out;
  out.id = id;
  out.question = s.question.text;
  out.answer = s.question.answer;
  out.skill = s.question.skill;
  out.category = world::name_of(s.question.concept_shape);
  out.references = s.question.references;
  if (std::find(out.references.begin(), out.references.end(), out.answer) == out.references.end())
    out.references.insert(out.references.begin(), out.answer);
  return out;
}

class WorldStream final : public Stream {
 public:
  explicit WorldStream(const StreamOptions& options) : options_(options), world_(world::stream(options.name)) {
    if (options_.train == 0) options_.train = 1600;
    if (options_.val == 0) options_.val = 300;
    if (options_.seed == StreamOptions::kRunSeed) options_.seed = 0;
    check(options.tasks <= static_cast<int64_t>(world_.tasks.size()), "stream.tasks=", options.tasks, " but ",
          world_.name, " has ", world_.tasks.size());
    for (const auto& task : world_.tasks) {
      if (options.tasks > 0 && static_cast<int64_t>(tasks_.size()) == options.tasks) break;
      tasks_.push_back({task.name, task.metric(), task.held_group >= 0, answer_tokens(task)});
    }
  }
  const std::string& name() const override { return world_.name; }
  const std::vector<StreamTask>& tasks() const override { return tasks_; }
  int64_t size(size_t task, DataSplit split) const override {
    if (split == DataSplit::novel && !tasks_.at(task).novel) return 0;
    return split == DataSplit::train ? options_.train : options_.val;
  }
  StreamSample sample(size_t task, DataSplit split, int64_t index) const override {
    const auto s = drawn(task, split, index);
    return to_stream_sample(s, name_of(task, split, index), static_cast<int>(options_.image_size));
  }
  StreamSample text(size_t task, DataSplit split, int64_t index) const override {
    return text_of_sample(drawn(task, split, index), name_of(task, split, index));
  }
  std::string fingerprint() const override {
    const auto cues = world_.tasks[0].cue ? cat(".", world::kCuesVersion) : std::string();
    const auto seed = options_.seed != 0 ? cat(":seed ", options_.seed) : std::string();
    return cat(world_.name, ":v", world::kWorldVersion, ".", world::kSkillsVersion, cues, ":", options_.train, ":",
               options_.val, ":", options_.image_size, ":", options_.tasks, seed);
  }

 private:
  world::Sample drawn(size_t task, DataSplit split, int64_t index) const {
    static constexpr world::Split kWorld[] = {world::Split::train, world::Split::val, world::Split::test,
                                              world::Split::tune, world::Split::val};
    return world::sample(world_, task,
                         {kWorld[static_cast<int>(split)], static_cast<uint64_t>(index), split == DataSplit::novel,
                          static_cast<uint64_t>(options_.seed)});
  }
  std::string name_of(size_t task, DataSplit split, int64_t index) const {
    static constexpr const char* kNames[] = {"train", "val", "test", "tune", "novel"};
    const auto seed = options_.seed != 0 ? cat(":seed", options_.seed) : std::string();  // another sample, another name
    return cat(world_.name, seed, "/", tasks_[task].name, "/", kNames[static_cast<int>(split)], "/", index);
  }

  StreamOptions options_;
  const world::Stream& world_;
  std::vector<StreamTask> tasks_;
};

}  // namespace

StreamSample to_stream_sample(const world::Sample& s, const std::string& id, int image_size) {
  auto out = text_of_sample(s, id);
  auto image = world::picture_of(s, image_size);
  out.height = out.width = image.size;
  out.pixels = std::move(image.pixels);
  return out;
}

std::unique_ptr<Stream> make_world_stream(const StreamOptions& options) {
  check(options.path.empty(), "stream.path: ", options.name, " is built in and reads no folder");
  return std::make_unique<WorldStream>(options);
}

}  // namespace asr
