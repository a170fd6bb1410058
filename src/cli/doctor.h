// asr doctor in parts: a list of checks, each a function that looks at one thing, adds lines to the table and leaves
// what it found for those after it. No weight is loaded by any of them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "io/image_processor.h"
#include "io/tokenizer.h"
#include "train/estimate.h"

namespace asr {

enum class Verdict { ok, assumed, warning, failure };

// One line a check.
class DoctorTable {
 public:
  void add(const std::string& what, Verdict verdict, const std::string& detail);
  // A check that may throw: its message is the detail of a failure.
  template <class F>
  bool attempt(const std::string& what, F&& f, Verdict good = Verdict::ok) {
    try {
      add(what, good, f());
      return true;
    } catch (const std::exception& error) {
      add(what, Verdict::failure, error.what());
      return false;
    }
  }
  bool failed() const { return failed_; }
  std::string text(int columns) const;  // details broken to fit; 0: one line a check
  nlohmann::json to_json() const;

 private:
  struct Row {
    std::string what;
    Verdict verdict;
    std::string detail;
  };
  std::vector<Row> rows_;
  bool failed_ = false;
};

struct DoctorArguments {
  std::vector<std::string> configs, sets;
  int64_t images = 20;                // pictures decoded of every task and split; -1: all
  int64_t workers = 0;                // threads that decode; 0: one a CPU
  bool assume = false;                // published sizes where files are missing
  std::string gpu;                    // empty: the one that is present, or kUsualGpu
  double tflops = 0, gpu_memory = 0;  // 0: the GPU's
  int64_t processes = 1;

  std::string planned_gpu() const { return gpu.empty() ? kUsualGpu : gpu; }
};

// What the checks find and hand on.
struct Examined {
  const DoctorArguments& arguments;
  DoctorTable table;
  std::optional<RunConfig> config;
  std::string model;                     // path
  std::optional<ModelShape> shape;       // where it could be read or is published
  std::unique_ptr<Tokenizer> tokenizer;  // null where there is none
  std::unique_ptr<ImageProcessor> processor;
  std::unique_ptr<Stream> stream;
  std::optional<Workload> work;  // where counts are known
  nlohmann::json estimate;       // of the last check
};

void check_configuration(Examined& e);
void check_device(Examined& e);
void check_model(Examined& e);
void check_parser(Examined& e);
void check_encoders(Examined& e);   // models that methods read beside the backbone
void check_stream(Examined& e);     // doctor_data.cpp
void check_published(Examined& e);  // counts of a prepared folder
void check_tasks(Examined& e);      // rows, ids, pictures, answers, lengths
void check_estimate(Examined& e);   // doctor_estimate.cpp: memory, disk, time

}  // namespace asr
