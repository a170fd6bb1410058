// What the preparations of all benchmarks share: finding and reading source files, checking rows, writing the folder of
// a prepared stream (streams/manifest.h), counting. A preparation is cut into units, such as a split; a unit's files
// appear together when it is done, and an interrupted preparation goes on with the next one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/atomic_file.h"
#include "base/sha256.h"
#include "io/record_file.h"
#include "streams/sample_row.h"
#include "streams/stream.h"

namespace asr {

struct PrepareOptions {
  std::string stream, variant;  // an empty variant is the stream's default
  std::string source, output;   // folders; of manifest the source may be a file
  std::string images;           // folder of images; empty: the source
  bool native = false;          // score as the benchmark's own code does, with its quirks
  bool skip_bad = false;        // bad rows are counted and listed instead of ending the preparation
  bool strict = false;          // counts that differ from the published ones are an error
  bool check_images = true;
  bool trust_pictures = false;  // look whether the images are there, but do not open them
  bool number_rows = false;     // ids by position, for files whose ids repeat
  bool text_only = false;       // rows without a picture are meant
  std::string task_field;       // of manifest: a member of the rows that names their task; empty: a file is a task
  int64_t seed = 0;
  int64_t tune_images = 5000;  // of val, set aside for tuning (vqav2-10); 0: none
  std::string held_out;        // concept group of vqacl's novel composition, such as G3; empty: standard
  double imbalance = 100;      // of clt-vqa: most frequent over least frequent class
  int64_t min_count = 5;       // of clt-vqa: rarer classes are left out

  nlohmann::json to_json() const;  // what shapes the result
};

struct Published {
  int64_t train = -1, val = -1, tune = -1;  // -1: no count is published
};

struct PreparedTask {
  std::string name, metric;
  int64_t answer_tokens = 16;
  Published published = {};
  bool text_only = false;  // has rows without a picture
};

struct RowPlace {
  const std::string& path;
  size_t line = 0, column = 0;
};

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options);
  ~Preparation();
  const PrepareOptions& options() const { return options_; }
  const std::string& variant() const { return variant_; }
  const std::string& images() const { return images_; }

  // The variant, one of these; the first is the default.
  const std::string& choose_variant(const std::vector<std::string>& known);

  // The folder that the source is, or lies in.
  const std::string& source_folder() const { return folder_; }

  // The folder of images where the user named none.
  void default_images(const std::string& folder);

  // A file of the source folder by one of its names, plain or with .gz; "" where there is none.
  std::string find(const std::vector<std::string>& names) const;
  std::string need(const std::vector<std::string>& names, const std::string& what) const;

  void add_task(const PreparedTask& task);  // a name that no task can have, or that another has, is an error
  Published published_total;                // over all tasks
  int64_t frames = 4;                       // of a video, side by side in one picture
  PromptStyle prompt = PromptStyle::recipe;

  void unit(const std::string& name, const std::function<void()>& body);
  using RecordUse = std::function<void(const FileRecord& record, const RowPlace& place)>;
  void read(const std::string& path, const RecordUse& use);  // with progress; a bad line goes to bad()

  // A first look at files that are read again: bad rows are errors as ever, but nothing is counted or listed twice.
  void look(const std::function<void()>& body);

  void add(size_t task, DataSplit split, SampleRow row, const RowPlace& place);
  void bad(const RowPlace& place, const std::string& id, const std::string& reason);
  void drop(const std::string& reason);  // a row that the benchmark leaves out by its own rules
  void note(const std::string& text);    // printed below the table
  void detail(const std::string& key, nlohmann::json value);
  void nest(size_t task, const std::vector<std::string>& groups);  // the task's groups are trained in this order

  nlohmann::json finish();  // writes stream.json and returns it

 private:
  struct OutputFile;
  OutputFile& output(size_t task, DataSplit split);
  void open_folder();
  void close_unit(const std::string& name);
  bool unit_is_done(const std::string& name) const;
  std::string name_of(size_t task, DataSplit split) const;
  nlohmann::json index() const;
  std::string why_empty(const nlohmann::json& index, const std::string& split) const;

  PrepareOptions options_;
  std::string variant_, images_, folder_;
  std::vector<PreparedTask> tasks_;
  nlohmann::json state_;    // of units that are done
  nlohmann::json current_;  // of the unit at work
  std::map<std::pair<size_t, DataSplit>, std::unique_ptr<OutputFile>> files_;
  std::unique_ptr<AtomicFile> skipped_;
  std::unordered_set<std::string> seen_images_;
  bool opened_ = false, looking_ = false, images_given_ = false;
};

struct PreparedStreamInfo {
  std::string name, summary;
  void (*prepare)(Preparation&);
};
const std::vector<PreparedStreamInfo>& prepared_stream_infos();

// Prepares a stream and returns its stream.json; a complete folder is left alone, with "already_complete" in the
// result.
nlohmann::json prepare_stream(const PrepareOptions& options);

// Task, counts, published counts and verdict, a row each and a total; and whether every published count is met.
std::vector<std::vector<std::string>> prepared_table(const nlohmann::json& index);
bool counts_agree(const nlohmann::json& index);

}  // namespace asr
