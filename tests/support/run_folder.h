// Fabricates the folder of a run as the trainer leaves it, so that tables and reports can be tested without training.
#pragma once

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "io/csv.h"
#include "io/safetensors.h"
#include "metrics/score_matrix.h"
#include "tests/support/files.h"
#include "tests/support/tensor_list.h"

namespace asr {

struct FabricatedRun {
  std::string label = "asr", method = "asr", stream = "world-10", backbone = "tiny-S";
  int64_t seed = 0, order = 0;
  bool replay_free = true, complete = true;
  std::vector<std::string> tasks = {"count", "color", "read"};
  std::vector<double> zero_shot = {10, 20, 30};
  std::vector<std::vector<double>> rows = {{50}, {40, 60}, {45, 50, 70}};  // a joint run has the last one alone
  std::string held_out;                                                    // concept group that training left out
  std::vector<std::vector<double>> novel;  // matrix_novel.csv, where not empty; NaN: no such questions
  double step_ms = 12.5;
  int questions = 20;  // a task
  int image_size = 16;
  bool log = true, predictions = true, analysis = true;
  bool samples = false;  // single samples in the analyses, and whole descriptors
  // Examples for the overlays; pixels [image_size][image_size][3].
  struct Example {
    std::string question, answer, prediction, task;
    std::vector<uint8_t> pixels;
  };
  std::vector<Example> examples;

  bool joint() const { return method == "joint"; }
  std::string folder_name() const {
    return label + (seed ? "-seed" + std::to_string(seed) : "") + (order ? "-order" + std::to_string(order) : "");
  }
};

inline std::string two_digits(size_t value) {
  return (value < 10 ? "0" : "") + std::to_string(value);
}

inline nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

inline double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

inline nlohmann::json fabricated_scores(const FabricatedRun& run) {
  const double zero_shot = run.zero_shot.empty() ? NAN : mean_of(run.zero_shot);
  if (run.joint())
    return {{"AP", mean_of(run.rows.back())},
            {"AF", nullptr},
            {"AF_vqacl", nullptr},
            {"Last", mean_of(run.rows.back())},
            {"Avg", nullptr},
            {"BWT", nullptr},
            {"MFT", mean_of(run.rows.back())},
            {"zero_shot", number_or_null(zero_shot)}};
  ScoreMatrix matrix{run.tasks, run.zero_shot, run.rows};
  for (auto& row : matrix.rows) row.resize(run.tasks.size(), NAN);
  const auto s = score(matrix);
  return {{"AP", s.ap},
          {"AF", number_or_null(s.af_paper)},
          {"AF_vqacl", number_or_null(s.af_vqacl)},
          {"Last", s.last},
          {"Avg", s.avg},
          {"BWT", number_or_null(s.bwt)},
          {"MFT", s.mft},
          {"zero_shot", number_or_null(zero_shot)}};
}

inline nlohmann::json fabricated_skills(const FabricatedRun& run) {
  nlohmann::json skills = nlohmann::json::array();
  for (size_t b = 0; b < run.tasks.size(); ++b) {
    nlohmann::json accuracy = nlohmann::json::array();
    for (const auto& row : run.rows)
      accuracy.push_back(b < row.size() ? nlohmann::json(row[b] / 100) : nlohmann::json(nullptr));
    skills.push_back({{"name", run.tasks[b]},
                      {"index", b},
                      {"accuracy", accuracy},
                      {"forgetting_best", 0.1},
                      {"forgetting_step", 0.1},
                      {"forgetting_cumulative", 0.1}});
  }
  return skills;
}

inline std::string fabricated_matrix(const FabricatedRun& run) {
  std::string out = "stage";
  for (const auto& task : run.tasks) out += "," + csv_field(task);
  out += "\n";
  const auto add = [&](size_t stage, const std::vector<double>& row) {
    out += std::to_string(stage);
    for (size_t b = 0; b < run.tasks.size(); ++b) out += "," + (b < row.size() ? std::to_string(row[b]) : "");
    out += "\n";
  };
  if (!run.zero_shot.empty()) add(0, run.zero_shot);
  for (size_t a = 0; a < run.rows.size(); ++a) add(run.joint() ? run.tasks.size() : a + 1, run.rows[a]);
  return out;
}

inline std::string fabricated_novel(const FabricatedRun& run) {
  std::string out = "stage";
  for (const auto& task : run.tasks) out += "," + csv_field(task);
  out += "\n";
  for (size_t a = 0; a < run.novel.size(); ++a) {
    out += std::to_string(a + 1);
    for (size_t b = 0; b < run.tasks.size(); ++b)
      out += "," + (b < run.novel[a].size() && !std::isnan(run.novel[a][b]) ? std::to_string(run.novel[a][b]) : "");
    out += "\n";
  }
  return out;
}

// As many right answers as the score asks for; the same questions in every run, which ones are right differs by run.
inline void write_predictions(const std::string& folder, const FabricatedRun& run) {
  std::filesystem::create_directories(folder + "/predictions");
  for (size_t a = 0; a < run.rows.size(); ++a)
    for (size_t b = 0; b < run.rows[a].size(); ++b) {
      std::vector<int> ids(run.questions);
      for (int i = 0; i < run.questions; ++i) ids[i] = i;
      Random random{run.label.size(), static_cast<uint64_t>(run.seed), b};
      random.shuffle(ids);
      std::string text;
      for (int i = 0; i < run.questions; ++i) {
        const bool right = i < std::lround(run.rows[a][b] / 100 * run.questions);
        text += nlohmann::json{{"question_id", 1000 * b + static_cast<size_t>(ids[i])},
                               {"text", right ? "2" : "3"},
                               {"answer", "2"},
                               {"score", right ? 1 : 0},
                               {"skill", run.tasks[b]},
                               {"question", "How many?"}}
                    .dump() +
                "\n";
      }
      const size_t stage = run.joint() ? run.tasks.size() : a + 1;
      write_text(folder + "/predictions/stage-" + two_digits(stage) + "-task-" + two_digits(b + 1) + ".jsonl", text);
    }
}

inline void write_log(const std::string& folder, const FabricatedRun& run) {
  std::string text;
  Random random{static_cast<uint64_t>(run.seed), run.label.size()};
  const int steps = 40;
  for (size_t stage = 1; stage <= run.rows.size(); ++stage)
    for (int step = 1; step <= steps; ++step) {
      const double task = 0.3 + 1.5 * std::exp(-step / 12.0) + 0.1 * random.uniform();
      nlohmann::json line = {{"current_steps", step},
                             {"total_steps", steps},
                             {"lr", 1e-3},
                             {"epoch", 1},
                             {"percentage", 2.5 * step},
                             {"elapsed_time", "0:01"},
                             {"remaining_time", "0:01"},
                             {"stage", stage},
                             {"task_loss", task}};
      double loss = task;
      if (run.method == "asr" && stage > 1) {
        line["spectral_loss"] = 0.2 + 0.05 * random.uniform();
        loss += line["spectral_loss"].get<double>();
      }
      line["loss"] = loss;
      text += line.dump() + "\n";
    }
  write_text(folder + "/log.jsonl", text);
}

// A bump that wanders with the stage, so that first and last spectra differ.
inline std::vector<float> fabricated_spectra(size_t skills, size_t stage, double drift, uint64_t key) {
  std::vector<float> out;
  for (size_t s = 0; s < skills; ++s)
    for (int k = 0; k < 8; ++k) {
      Random random{key, s, static_cast<uint64_t>(k)};
      const double centre = 1.5 + 0.4 * static_cast<double>(s % 5) + drift * static_cast<double>(stage);
      out.push_back(
          static_cast<float>(0.02 + 0.3 * std::exp(-0.3 * (k - centre) * (k - centre)) + 0.02 * random.uniform()));
    }
  return out;
}

inline std::vector<FabricatedRun::Example> default_examples(const FabricatedRun& run) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < run.image_size * run.image_size; ++i)
    pixels.insert(pixels.end(),
                  {static_cast<uint8_t>(i), static_cast<uint8_t>(90), static_cast<uint8_t>(255 - i % 256)});
  return {{"How many <b>red</b> circles & squares?", "2", run.label == "vanilla" ? "3" : "2", run.tasks[0], pixels},
          {"What color is it?", "blue", "blue", run.tasks.back(), pixels}};
}

inline void write_overlays(TensorList& tensors, std::map<std::string, std::string>& metadata,
                           const FabricatedRun& run) {
  const auto examples = run.examples.empty() ? default_examples(run) : run.examples;
  const auto n = static_cast<int64_t>(examples.size());
  std::vector<uint8_t> pixels;
  std::vector<float> maps;
  nlohmann::json words = nlohmann::json::array();
  for (size_t e = 0; e < examples.size(); ++e) {
    pixels.insert(pixels.end(), examples[e].pixels.begin(), examples[e].pixels.end());
    std::vector<float> map;
    Random random{e, run.label.size()};
    const double y = 8 * random.uniform(), x = 8 * random.uniform();
    double sum = 0;
    for (int i = 0; i < 64; ++i) {
      const double dy = i / 8 - y, dx = i % 8 - x;
      map.push_back(static_cast<float>(0.02 + std::exp(-0.25 * (dy * dy + dx * dx))));
      sum += map.back();
    }
    for (float value : map) maps.push_back(static_cast<float>(value / sum));
    words.push_back({{"question", examples[e].question},
                     {"answer", examples[e].answer},
                     {"prediction", examples[e].prediction},
                     {"task", examples[e].task},
                     {"functional", {"how", "many"}}});
  }
  tensors.add("overlay.image", Dtype::U8, {n, run.image_size, run.image_size, 3}, pixels);
  tensors.add("overlay.map", Dtype::F32, {n, 8, 8}, maps);
  metadata["overlay"] = words.dump();
}

// Eight samples of every skill seen; those of the first are nearer to their prototype when they are right.
inline void write_samples(TensorList& tensors, const FabricatedRun& run, size_t stage, int64_t columns) {
  std::vector<int64_t> skill;
  std::vector<float> correct, distance, descriptor;
  for (size_t s = 0; s < run.rows[stage - 1].size(); ++s)
    for (int i = 0; i < 8; ++i) {
      Random random{run.label.size(), s, static_cast<uint64_t>(i), stage};
      skill.push_back(static_cast<int64_t>(s));
      correct.push_back(i < std::lround(run.rows[stage - 1][s] / 100 * 8) ? 1.0f : 0.0f);
      distance.push_back(static_cast<float>(0.5 + random.uniform() + (correct.back() > 0 ? 0 : 0.5)));
      for (int64_t d = 0; d < columns; ++d)
        descriptor.push_back(static_cast<float>(0.1 * static_cast<double>(s + stage) + random.uniform()));
    }
  const auto m = static_cast<int64_t>(skill.size());
  tensors.add("sample.skill", Dtype::I64, {m}, skill);
  tensors.add("sample.task", Dtype::I64, {m}, skill);
  tensors.add("sample.correct", Dtype::F32, {m}, correct);
  tensors.add("sample.distance", Dtype::F32, {m}, distance);
  tensors.add("sample.descriptor", Dtype::F32, {m, columns}, descriptor);
}

inline void write_analysis(const std::string& folder, const FabricatedRun& run) {
  for (size_t a = 1; a <= run.rows.size(); ++a) {
    const std::string place = folder + "/stages/" + two_digits(run.joint() ? run.tasks.size() : a);
    std::filesystem::create_directories(place);
    const size_t k = run.rows[a - 1].size();
    TensorList tensors;
    std::vector<int64_t> skill, count(k, 20), shape = {static_cast<int64_t>(k)}, table = {static_cast<int64_t>(k), 8};
    std::vector<float> accuracy;
    for (size_t s = 0; s < k; ++s) {
      skill.push_back(static_cast<int64_t>(s));
      accuracy.push_back(static_cast<float>(run.rows[a - 1][s] / 100));
    }
    const double drift = run.method == "asr" ? 0.05 : 0.25;
    // Every task asks for one skill, which bears its name.
    tensors.add("skill", Dtype::I64, shape, skill);
    tensors.add("task", Dtype::I64, shape, skill);
    tensors.add("count", Dtype::I64, shape, count);
    tensors.add("accuracy", Dtype::F32, shape, accuracy);
    const int64_t columns = run.samples ? 24 : 8;  // radial, angular and anisotropy, or too few of them
    const std::vector<int64_t> whole = {static_cast<int64_t>(k), columns};
    tensors.add("mean", Dtype::F32, whole, std::vector<float>(static_cast<size_t>(columns) * k, 0.5f));
    tensors.add("variance", Dtype::F32, whole, std::vector<float>(static_cast<size_t>(columns) * k, 0.1f));
    if (run.samples) write_samples(tensors, run, a, columns);
    tensors.add("radial", Dtype::F32, table, fabricated_spectra(k, a, drift, 1));
    tensors.add("angular", Dtype::F32, table, fabricated_spectra(k, a, drift, 2));
    const auto names = nlohmann::json(run.tasks).dump();
    std::map<std::string, std::string> metadata = {
        {"asr_analysis", "2"}, {"skill_names", names}, {"task_names", names}};
    write_overlays(tensors, metadata, run);
    write_safetensors(place + "/analysis.safetensors", tensors.views(), metadata);
  }
}

// The prototypes' names alone: no report reads more of them.
inline void write_memory(const std::string& folder) {
  TensorList tensors;
  tensors.add<int64_t>("skill", Dtype::I64, {1}, {0});
  write_safetensors(folder + "/memory.safetensors", tensors.views(), {});
}

// Writes the method folder under `out` and returns its path.
inline std::string write_run(const std::string& out, const FabricatedRun& run) {
  const std::string folder = out + "/" + run.folder_name();
  std::filesystem::create_directories(folder);
  write_text(out + "/config.yaml", "stream: " + run.stream + "\nbackbone: " + run.backbone + "\n");
  write_text(out + "/fingerprint.json", R"({"config": "c0ffee", "code": "0.1.0", "data": "abc"})");
  const nlohmann::json metrics = {{"label", run.label},
                                  {"method", run.method},
                                  {"seed", run.seed},
                                  {"order", run.order},
                                  {"stream", run.stream},
                                  {"backbone", run.backbone},
                                  {"held_out", run.held_out},
                                  {"one_stage", run.joint()},
                                  {"replay_free", run.replay_free},
                                  {"tasks", run.tasks},
                                  {"scores", fabricated_scores(run)},
                                  {"cost",
                                   {{"step_ms", run.step_ms},
                                    {"train_seconds", 95.0},
                                    {"eval_seconds", 8.0},
                                    {"stored_bytes", 4096},
                                    {"adapter_parameters", 73728}}},
                                  {"skills", fabricated_skills(run)},
                                  {"complete", run.complete}};
  write_text(folder + "/metrics.json", metrics.dump(1));
  write_text(folder + "/matrix.csv", fabricated_matrix(run));
  if (!run.novel.empty()) write_text(folder + "/matrix_novel.csv", fabricated_novel(run));
  if (run.log) write_log(folder, run);
  if (run.predictions) write_predictions(folder, run);
  if (run.analysis) write_analysis(folder, run);
  if (run.analysis) write_memory(folder);
  return folder;
}

}  // namespace asr
