#include "train/run_model.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "backbones/base_precision.h"
#include "base/assets.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "metrics/metric.h"
#include "skills/part_of_speech.h"
#include "skills/taxonomy.h"
#include "tensor/cuda_facts.h"
#include "tensor/runtime.h"

namespace asr {

std::string find_model(const std::string& name) {
  if (name.find('/') != std::string::npos || path_exists(name)) return name;
  return find_asset(name + ".safetensors");
}

at::Device use_device(const std::string& name, int gpu, Switch same_bits) {
  if (name == "cpu") return at::kCPU;
  check_cuda("device=cuda");
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(gpu));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);  // what is made without naming a device lands there too
  set_deterministic(same_bits == Switch::yes);
  return device;
}

std::unique_ptr<Backbone> load_run_model(const RunConfig& config, const std::string& path, at::Device device) {
  check_format(config.run.base_precision, device);
  auto out = load_backbone(path);
  out->to(device);
  keep_weights_in(*out, config.run.base_precision);
  out->configure(config.run.backbone_options());
  return out;
}

std::unique_ptr<QuestionAnalyser> load_run_analyser(const RunConfig& config) {
  if (!config.run.taxonomy.empty()) use_taxonomy(read_taxonomy(config.run.taxonomy));
  use_lexicon(config.run.lexicon);
  const auto skill = config.options.asr.skill;
  return make_analyser(reads_parser(skill) ? config.run.parser_path() : "", skill);
}

void check_scored(const RunOptions& run, const Stream& stream) {
  for (size_t task = 0; task < stream.tasks().size(); ++task)
    check(stream.size(task, run.scored_split()) > 0, "eval_split: ", stream.name(), " has no samples of task '",
          printable(stream.tasks()[task].name), "' in that split");
  const auto metrics = metric_names();
  for (const auto& task : stream.tasks()) {
    check(std::find(metrics.begin(), metrics.end(), task.metric) != metrics.end(), stream.name(), ": task '",
          printable(task.name), "' is scored by '", printable(task.metric), "', which is unknown",
          did_you_mean(task.metric, metrics));
    check_metric(task.metric);
  }
}

}  // namespace asr
