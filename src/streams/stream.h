// A stream: tasks in order, each with its metric and its samples, reachable by index. What a trainer sees of the
// built-in world and of real benchmarks alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"

namespace asr {

struct StreamSample {
  std::string id, question, answer;
  std::vector<std::string> references;  // every right answer; at least `answer`
  std::string skill;                    // true skill where the stream knows it; only the mode `oracle` may use it
  std::string type;                     // of the question, where the metric depends on it (NExT-QA); else empty
  std::string part;                     // head, medium, tail or unseen in a long-tailed stream; else empty
  std::string category = {};            // of the object that the picture shows, where the stream knows it
  bool has_picture = true;              // false: a question about a text alone, whose picture is black
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [height][width][3], of the picture's own size
};

// Where a picture comes from: an image file, or a video of which `frames` are put side by side (streams/picture.h).
struct PictureFile {
  std::string path;  // empty: drawn, or none
  int64_t frames = 1;
};

// What stands around a row's text: the run's recipe, or the template of an instruction benchmark's own release.
enum class PromptStyle { recipe, instruction };
template <>
struct EnumNames<PromptStyle> {
  static constexpr const char* names[] = {"recipe", "instruction"};
};

struct StreamTask {
  std::string name, metric;
  bool novel = false;         // has a second validation set of unseen compositions
  int64_t answer_tokens = 8;  // generation stops there at the latest
  PromptStyle prompt = PromptStyle::recipe;
};

// Rows of a task that are trained before those of the next phase, with an optimizer and a schedule of their own.
struct TrainingPhase {
  std::string name;
  std::vector<int64_t> rows;
};

enum class GroupOrder { nested, mixed };
template <>
struct EnumNames<GroupOrder> {
  static constexpr const char* names[] = {"nested", "mixed"};
};

enum class DataSplit { train, val, test, tune, novel };

class Stream {
 public:
  virtual ~Stream() = default;
  virtual const std::string& name() const = 0;
  virtual const std::vector<StreamTask>& tasks() const = 0;
  virtual int64_t size(size_t task, DataSplit split) const = 0;
  virtual StreamSample sample(size_t task, DataSplit split, int64_t index) const = 0;  // may be called from any thread
  // The same without its picture, where that is cheaper.
  virtual StreamSample text(size_t task, DataSplit split, int64_t index) const { return sample(task, split, index); }
  // The task's training rows in phases, each row in one (VQACL's concept groups); empty: all are trained together.
  virtual std::vector<TrainingPhase> phases(size_t /*task*/) const { return {}; }
  // Of the data: changes when any sample, task, metric or limit would, but for the content of pictures in files.
  virtual std::string fingerprint() const = 0;
  virtual PictureFile picture_file(size_t /*task*/, DataSplit /*split*/, int64_t /*index*/) const { return {}; }
  // The files that the pictures of a split are read from, each once; none where they are drawn.
  virtual std::vector<std::string> picture_files(size_t /*task*/, DataSplit /*split*/) const { return {}; }
};

bool has_pictures(const Stream& stream, size_t task, DataSplit split);    // whether any sample has one
bool has_categories(const Stream& stream, size_t task, DataSplit split);  // whether any sample names its object's
double questions_a_picture(const Stream& stream, size_t task, DataSplit split);  // by its file; 1 where it has none

struct StreamOptions {
  std::string name = "world-10";
  std::string path;            // folder of a prepared stream or of a manifest; the built-in world needs none
  int64_t train = 0, val = 0;  // samples a task. 0: all there are; 1600 and 300 of the built-in world
  int64_t image_size = 64;     // pixels a side (built-in world)
  int64_t tasks = 0;           // only the first so many; 0: all
  // Of a stream whose tasks have an inner order of groups: one group after the other, or all of a task mixed.
  GroupOrder groups = GroupOrder::nested;
  // Of the built-in world: which training and test samples are drawn; kRunSeed: as the run's seed says (0 without one).
  int64_t seed = kRunSeed;
  static constexpr int64_t kRunSeed = -1;
};
// The same with the seed that a run of this seed draws by. Other streams have no seed: their files hold the samples.
StreamOptions with_run_seed(StreamOptions options, int64_t run_seed);

// The world's by name, "manifest", or a benchmark prepared by 'asr prepare' ("vqav2-10", "vqav2-10:asr").
std::unique_ptr<Stream> make_stream(const StreamOptions& options);
std::unique_ptr<Stream> make_world_stream(const StreamOptions& options);
std::unique_ptr<Stream> make_manifest_stream(const StreamOptions& options);

struct StreamInfo {
  std::string name, summary;
  bool built_in = false;  // needs no files
};
std::vector<StreamInfo> stream_infos();

}  // namespace asr
