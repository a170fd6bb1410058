// The same run with one process and with several, and how close they must be.
#pragma once

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tensor/tensor_io.h"
#include "tests/data/thread_team.h"
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {

using Settings = std::vector<std::pair<std::string, std::string>>;

inline std::string write_config(const TemporaryFolder& folder, const std::string& name, const Settings& settings) {
  auto list = small_run(folder / "model", folder / name, "vanilla");
  for (const auto& [key, value] : settings) list.push_back({key, value, "test"});
  std::map<std::string, std::string> last;
  for (const auto& a : list) last[a.key] = a.value;
  std::string yaml;
  for (const auto& [key, value] : last) yaml += key + ": " + value + "\n";
  const auto path = folder / (name + ".yaml");
  write_text(path, yaml);
  return path;
}

// The same settings with one process and with several; returns both folders.
inline std::pair<std::string, std::string> run_both(const TemporaryFolder& folder, Settings settings, int processes) {
  const auto one = run_program({"run", write_config(folder, "one", settings), "--threads", "1"});
  EXPECT_EQ(one.status, 0) << one.error;
  const auto many = run_program(
      {"run", write_config(folder, "many", settings), "--threads", "1", "--processes", std::to_string(processes)});
  EXPECT_EQ(many.status, 0) << many.error;
  EXPECT_EQ(std::count(many.out.begin(), many.out.end(), '\n'), std::count(one.out.begin(), one.out.end(), '\n'));
  return {folder / "one", folder / "many"};
}

// By two processes, as threads; `out` is where the options put the run.
inline void run_with_two(const std::vector<Assignment>& options, const std::string& out) {
  const auto config = resolve_run(options);
  as_team(2, [&](const Team& team) {
    // Threads share the lexicon that a run sets first; the leader has done so when its folder is there.
    for (int i = 0; i < 2000 && !team.leads() && !std::filesystem::exists(out + "/fingerprint.json"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    run_all({config, false, "test", &team});
  });
}

inline std::vector<nlohmann::json> log_of(const std::string& run) {
  std::vector<nlohmann::json> out;
  std::ifstream in(run + "/log.jsonl");
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

// Every logged number but times.
inline void expect_close_logs(const std::string& a, const std::string& b, double tolerance) {
  const auto first = log_of(a), second = log_of(b);
  ASSERT_EQ(first.size(), second.size()) << a;
  ASSERT_GT(first.size(), 3u) << a;
  for (size_t i = 0; i < first.size(); ++i)
    for (const auto& [key, value] : first[i].items()) {
      if (!value.is_number() || key == "elapsed_time" || key == "remaining_time" || key == "communication_time")
        continue;
      ASSERT_TRUE(second[i].contains(key)) << a << " " << key;
      const double x = value.get<double>(), y = second[i][key].get<double>();
      // Prototypes of a few samples have variances near their floor: a rounding error of a descriptor counts a
      // thousandfold.
      const double slack = key == "grad_norm" || key.rfind("spectral_", 0) == 0 ? 100 : 1;
      EXPECT_NEAR(x, y, slack * tolerance * (1 + std::abs(x))) << a << " " << key << " in line " << i + 1;
    }
}

// Logs, the score matrix and the final adapters, unless these are said to have no fixed directions. Adapters are
// compared by their mean distance: AdamW makes a whole step of a gradient that is little more than rounding, so single
// numbers may differ by the learning rate (0.01 in these runs), and some do on some CPU.
inline void expect_close_runs(const std::string& a, const std::string& b, double tolerance, bool spectra = true,
                              bool adapters_turn = false) {
  constexpr double kMeanDistance = 5e-4;
  expect_close_logs(a, b, tolerance);
  EXPECT_EQ(read_text(a + "/matrix.csv"), read_text(b + "/matrix.csv"));
  if (adapters_turn) return;
  int adapters = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(a + "/adapter")) {
    const auto name = "/" + std::filesystem::path(entry.path()).lexically_relative(a).string();
    if (entry.path().extension() != ".safetensors") continue;
    const auto x = read_safetensors(a + name), y = read_safetensors(b + name);
    ASSERT_EQ(x.tensors.size(), y.tensors.size());
    for (const auto& view : x.tensors) {
      const auto p = load_tensor(x, view.name), q = load_tensor(y, view.name);
      ASSERT_EQ(p.sizes(), q.sizes()) << view.name;
      if (p.numel() == 0) continue;
      const auto apart = (p.to(at::kDouble) - q.to(at::kDouble)).abs().mean();
      EXPECT_LT(apart.item<double>(), kMeanDistance) << a << " " << view.name;
      ++adapters;
    }
  }
  EXPECT_GT(adapters, 0) << a;
  if (!spectra) return;
  const auto m = read_safetensors(a + "/memory.safetensors"), n = read_safetensors(b + "/memory.safetensors");
  EXPECT_TRUE(load_tensor(m, "mean").allclose(load_tensor(n, "mean"), 1e-3, 1e-4));
  EXPECT_TRUE(load_index(m, "count").equal(load_index(n, "count")));
}

}  // namespace asr
