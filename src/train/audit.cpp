#include "train/audit.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/sha256.h"
#include "train/checkpoint.h"
#include "train/run_options.h"
#include "train/runner.h"

namespace asr {
namespace {

using nlohmann::json;

std::string hash_of(const void* data, size_t size) {
  Sha256 hash;
  hash.update(data, size);
  return hash.hex();
}

AuditItem item_of(const std::string& name, const std::string& kind, const torch::Tensor& tensor) {
  const auto bytes = tensor.contiguous();
  AuditItem out;
  out.name = name, out.kind = kind, out.bytes = static_cast<int64_t>(bytes.nbytes());
  out.sha256 = hash_of(bytes.data_ptr(), bytes.nbytes());
  return out;
}

// A byte sequence that would give a training sample away.
struct Needle {
  std::string bytes, what;
};

// Enough different bytes that a match is no accident.
bool telling(const std::string& bytes) {
  return bytes.size() >= 12 && std::set<char>(bytes.begin(), bytes.end()).size() >= 6;
}

// The middle of the picture, in the channel order of files and of tensors.
void add_image(const StreamSample& sample, std::vector<Needle>& out) {
  const auto width = static_cast<size_t>(sample.width), row = static_cast<size_t>(sample.height / 2);
  const std::string interleaved(sample.pixels.begin() + static_cast<int64_t>(row * width * 3),
                                sample.pixels.begin() + static_cast<int64_t>((row + 1) * width * 3));
  std::string plane;
  for (size_t x = 0; x < width; ++x) plane += interleaved[x * 3];
  for (const auto& bytes : {interleaved, plane})
    if (telling(bytes)) out.push_back({bytes, "image of " + sample.id});
}

// The question as token numbers, as bytes of int64 and int32.
template <class Integer>
void add_tokens(const std::vector<Token>& tokens, const std::string& id, std::vector<Needle>& out) {
  if (tokens.size() < 4) return;
  std::string bytes;
  for (const auto& token : tokens) {
    const auto value = static_cast<Integer>(token.id);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  out.push_back({bytes, "tokens of " + id});
}

std::vector<Needle> needles_of(const RunConfig& config, int64_t samples) {
  const auto stream = make_stream(config.run.stream);
  const auto model = load_backbone(find_model(config.run.model));
  std::vector<Needle> out;
  for (size_t task = 0; task < stream->tasks().size(); ++task)
    for (int64_t i = 0; i < std::min(samples, stream->size(task, DataSplit::train)); ++i) {
      const auto s = stream->sample(task, DataSplit::train, i);
      add_image(s, out);
      if (telling(s.question)) out.push_back({s.question, "question of " + s.id});
      const auto tokens = model->tokenizer().encode(s.question);
      add_tokens<int64_t>(tokens, s.id, out), add_tokens<int32_t>(tokens, s.id, out);
    }
  return out;
}

std::string search(const torch::Tensor& tensor, const std::vector<Needle>& needles) {
  const auto bytes = tensor.contiguous();
  if (bytes.nbytes() == 0) return "";  // no address either
  const auto* data = static_cast<const char*>(bytes.data_ptr());
  for (const auto& needle : needles)
    if (memmem(data, bytes.nbytes(), needle.bytes.data(), needle.bytes.size())) return needle.what;
  return "";
}

RunConfig config_of(const json& stored, const std::string& folder) {
  // The manifest is nested; YAML text brings it back to assignments.
  return resolve_run(parse_yaml_options(yaml_text(stored), folder + " (stored config)"));
}

std::vector<AuditItem> analysis_files(const std::string& folder) {
  std::vector<AuditItem> out;
  const auto add = [&](const std::string& name) {
    const auto text = read_file(folder + "/" + name);
    out.push_back({name, "analysis", hash_of(text.data(), text.size()), static_cast<int64_t>(text.size()), ""});
  };
  for (const auto& stage : list_folder(folder + "/stages"))
    for (const auto& file : list_folder(folder + "/stages/" + stage)) add("stages/" + stage + "/" + file);
  for (const auto& file : list_folder(folder + "/predictions")) add("predictions/" + file);
  return out;
}

void judge(Audit& audit) {
  static const std::set<std::string> forbidden = {"sample", "question", "answer", "teacher"};
  if (!audit.replay_free) return;
  for (const auto& item : audit.kept) {
    if (forbidden.count(item.kind)) audit.violations.push_back(cat(item.name, " is a ", item.kind));
    if (!item.found.empty()) audit.violations.push_back(cat(item.name, " contains the ", item.found));
  }
  for (const auto& item : audit.adapter)
    if (!item.found.empty()) audit.violations.push_back(cat(item.name, " contains the ", item.found));
}

}  // namespace

int64_t Audit::kept_bytes() const {
  int64_t sum = 0;
  for (const auto& item : kept) sum += item.bytes;
  return sum;
}

json Audit::to_json() const {
  const auto list = [](const std::vector<AuditItem>& items) {
    json out = json::array();
    for (const auto& item : items) {
      json entry = {{"name", item.name}, {"kind", item.kind}, {"bytes", item.bytes}, {"sha256", item.sha256}};
      if (!item.found.empty()) entry["found"] = item.found;
      out.push_back(entry);
    }
    return out;
  };
  return {{"folder", folder},           {"label", label},
          {"method", method},           {"stage", stage},
          {"replay_free", replay_free}, {"passed", passed()},
          {"kept", list(kept)},         {"kept_bytes", kept_bytes()},
          {"adapter", list(adapter)},   {"analysis", list(analysis)},
          {"violations", violations},   {"searched", searched}};
}

Audit audit_run(const std::string& folder, int64_t samples) {
  const auto checkpoint = load_latest_checkpoint(folder + "/checkpoints");
  check(checkpoint.has_value(), folder, ": holds no readable checkpoint; there is nothing to audit");
  const auto& state = checkpoint->state;
  check(state.contains("kept") && state.contains("config") && state.contains("method"), folder,
        ": its checkpoint does not say what is kept");
  Audit out;
  out.folder = folder, out.label = std::filesystem::path(folder).filename().string();
  out.method = state["method"].get<std::string>(), out.stage = state["stage"].get<int>();
  const auto config = config_of(state["config"], folder);
  out.replay_free = true;
  for (const auto& method : make_methods(out.method, config.method_assignments))
    out.replay_free = out.replay_free && method->keeps() == Keeps::statistics;
  const auto needles = needles_of(config, samples);
  out.searched = static_cast<int64_t>(make_stream(config.run.stream)->tasks().size()) * samples;
  for (const auto& [name, tensor] : checkpoint->tensors) {
    if (name.compare(0, 9, "analysis.") == 0 || name.compare(0, 10, "optimizer.") == 0) continue;
    const bool adapter = name.compare(0, 8, "adapter.") == 0;
    check(adapter || state["kept"].contains(name), folder, ": tensor '", name, "' of the checkpoint is undeclared");
    auto item = item_of(name, adapter ? "weights" : state["kept"][name].get<std::string>(), tensor);
    item.found = search(tensor, needles);
    (adapter ? out.adapter : out.kept).push_back(std::move(item));
  }
  out.analysis = analysis_files(folder);
  judge(out);
  return out;
}

}  // namespace asr
