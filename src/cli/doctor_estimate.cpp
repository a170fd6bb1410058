// asr doctor's last lines: memory, disk and time by the formulas of train/estimate.h.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "cli/doctor.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Bytes that a process may still take, as the kernel says.
double available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  double value = 0;
  while (file >> key >> value) {
    if (key == "MemAvailable:") return value * 1024;
    std::getline(file, unit);
  }
  return 0;
}

Machine gpu_of(const DoctorArguments& a) {
  return a.gpu.empty() ? gpu_at_hand(device_memory()) : gpu_named(a.gpu);
}

Machine machine_of(const Examined& e) {
  const auto& a = e.arguments;
  Machine out = e.config->run.device == "cuda" ? gpu_of(a) : measure_cpu(*e.shape);
  if (!out.gpu) out.memory = available_memory();
  if (a.tflops > 0) {
    out.flops = a.tflops * 1e12;
    out.assumption = cat(a.tflops, " TFLOP/s as given by --tflops");
  }
  if (a.gpu_memory > 0) out.memory = a.gpu_memory * 1e9;
  out.processes = a.processes;
  return out;
}

void add_memory(Examined& e, const MemoryEstimate& m, const Machine& machine) {
  const auto b = [](double bytes) { return human_bytes(bytes); };
  const double peak = m.peak();
  const auto verdict = m.kept() > machine.memory     ? Verdict::failure
                       : peak > 0.9 * machine.memory ? Verdict::warning
                                                     : Verdict::ok;
  e.table.add(
      "memory", verdict,
      cat("about ", b(peak), " of ", b(machine.memory), machine.gpu ? " a GPU" : " available", ": weights ",
          b(m.weights), ", adapters and optimizer ", b(m.adapters + m.optimizer),
          m.method > 0 ? cat(", the method's ", b(m.method)) : "",
          m.reference > 0 ? cat(", reference embeddings ", b(m.reference)) : "",
          m.samples > 0 ? cat(", encoded samples ", b(m.samples)) : "", ", and the largest of training ", b(m.training),
          ", evaluation with its cache ", b(m.evaluation), ", measuring prototypes ", b(m.measuring),
          verdict == Verdict::ok ? "" : "; lower the batch sizes or use gradient_checkpointing"));
  if (!machine.gpu) return;
  const double free = available_memory();
  e.table.add("host memory", e.arguments.assume || m.host < 0.9 * free ? Verdict::ok : Verdict::warning,
              cat("about ", b(m.host), " for texts, replayed pictures and reference embeddings a process, ", b(free),
                  " available here"));
}

void add_disk(Examined& e, double needed) {
  const auto& folder = e.config->run.output_dir;
  if (folder.empty()) return e.table.add("output_dir", Verdict::failure, "is not set; say where the run is written");
  std::error_code error;
  auto place = fs::absolute(folder, error);
  while (!place.empty() && !path_exists(place) && place.has_parent_path()) place = place.parent_path();
  const auto space = fs::space(place, error);
  const double free = error ? 0 : static_cast<double>(space.available);
  // What is planned with --assume will run elsewhere.
  const auto verdict = free < std::max(2e8, needed)       ? e.arguments.assume ? Verdict::assumed : Verdict::failure
                       : free < std::max(2e9, 2 * needed) ? Verdict::warning
                                                          : Verdict::ok;
  const auto most = needed > 0 ? cat(", about ", human_bytes(needed), " needed") : std::string();
  e.table.add("output_dir", verdict, cat(folder, most, ", ", human_bytes(free), " free here"));
}

void add_time(Examined& e, const Estimate& estimate, const Machine& machine) {
  const auto d = [](double seconds) { return human_duration(seconds); };
  for (const auto& t : estimate.times)
    e.table.add("time " + t.method, Verdict::ok,
                cat("about ", d(t.total()), ": ", t.steps, " steps ", d(t.training), ", ",
                    number(e.work->answers() - e.work->scored(), 0), " answers ", d(t.evaluation), ", memory pass ",
                    d(t.memory_pass), t.method_pass > 0 ? cat(", the method's own pass ", d(t.method_pass)) : "",
                    "; once for all runs: zero-shot row ", d(t.zero_shot),
                    t.reference > 0 ? cat(", geometry reference ", d(t.reference)) : ""));
  const auto& run = e.config->run;
  const auto runs = static_cast<int64_t>(run.method.size() * run.seeds.size()) * run.orders;
  e.table.add("time in all", Verdict::ok,
              cat("about ", d(estimate.seconds), " for ", runs, runs == 1 ? " run on " : " runs on ", machine.processes,
                  " x ", machine.name, "; assumed: ", machine.assumption,
                  machine.processes > 1 ? cat("; work shared at ", 100 * kParallelShare, " %") : "",
                  "; loading, decoding pictures and checkpoints are not counted"));
}

json to_json(const Estimate& estimate, const Machine& machine, const Workload& work) {
  const auto& m = estimate.memory;
  json times = json::array();
  for (const auto& t : estimate.times)
    times.push_back({{"method", t.method},
                     {"steps", t.steps},
                     {"training_seconds", t.training},
                     {"evaluation_seconds", t.evaluation},
                     {"memory_pass_seconds", t.memory_pass},
                     {"method_seconds", t.method_pass},
                     {"zero_shot_seconds", t.zero_shot},
                     {"reference_seconds", t.reference},
                     {"seconds", t.total()}});
  return {{"machine",
           {{"name", machine.name},
            {"assumption", machine.assumption},
            {"flops", machine.flops},
            {"bandwidth", machine.bandwidth},
            {"memory_bytes", machine.memory},
            {"processes", machine.processes}}},
          {"memory_bytes",
           {{"weights", m.weights},
            {"adapters", m.adapters},
            {"optimizer", m.optimizer},
            {"method", m.method},
            {"reference", m.reference},
            {"samples", m.samples},
            {"training", m.training},
            {"evaluation", m.evaluation},
            {"measuring", m.measuring},
            {"overhead", m.overhead},
            {"host", m.host},
            {"peak", m.peak()}}},
          {"tokens", {{"visual", work.picture.visual}, {"text", work.text_tokens}, {"new", work.new_tokens}}},
          {"answers", work.answers()},
          {"questions_a_picture", work.questions()},
          {"disk_bytes", estimate.disk},
          {"methods", times},
          {"seconds", estimate.seconds}};
}

}  // namespace

void check_estimate(Examined& e) {
  if (const auto warning = e.stream ? batch_warning(e.config->run, *e.stream) : ""; !warning.empty())
    e.table.add("batch", Verdict::warning, warning);
  if (!e.shape || !e.work || e.work->tasks.empty()) return add_disk(e, 0);
  const auto machine = machine_of(e);
  const auto estimate = estimate_run(*e.config, *e.shape, *e.work, machine);
  add_disk(e, estimate.disk);
  add_memory(e, estimate.memory, machine);
  add_time(e, estimate, machine);
  e.estimate = to_json(estimate, machine, *e.work);
}

}  // namespace asr
