#include "train/checkpoint.h"

#include <fcntl.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "io/safetensors_metadata.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
constexpr const char *kPrefix = "checkpoint-", *kUnfinished = "unfinished-", *kDamaged = "damaged-";
constexpr const char* kKept = "/kept.safetensors";

// Steps of the checkpoints in a folder, ascending; unfinished ones carry another name.
std::vector<int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<int64_t> out;
  for (const auto& name : list_folder(folder)) {
    int64_t step = 0;
    if (name.compare(0, std::strlen(kPrefix), kPrefix) == 0 && parse_int(name.substr(std::strlen(kPrefix)), step))
      out.push_back(step);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string path_of(const std::string& folder, int64_t step) {
  return cat(folder, "/", kPrefix, step);
}

Checkpoint load(const std::string& path, CheckpointPart part) {
  const auto file = read_safetensors(path + "/state.safetensors");
  verify_checksum(file);
  Checkpoint out;
  out.state = metadata_json(file, "state");
  check(out.state.is_object() && out.state.contains("global_step"), file.path, ": its state is damaged");
  if (part == CheckpointPart::state) {
    if (out.state.value("kept_apart", false)) verify_checksum(read_safetensors(path + kKept));
    return out;
  }
  for (const auto& view : file.tensors) out.tensors.emplace_back(view.name, load_tensor(file, view.name).clone());
  const auto kept = path + kKept;
  if (!out.state.value("kept_apart", false)) return out;
  const auto rest = read_safetensors(kept);
  verify_checksum(rest);
  for (const auto& view : rest.tensors) {
    out.apart.emplace_back(view.name, load_tensor(rest, view.name).clone());
    // What has changed since it was written stands in the other file.
    if (std::none_of(out.tensors.begin(), out.tensors.end(), [&](const auto& t) { return t.first == view.name; }))
      out.tensors.push_back(out.apart.back());
  }
  return out;
}

// A list of names, types and shapes goes first, then the bytes of each tensor.
nlohmann::json list_tensors(const NamedTensors& tensors) {
  auto list = nlohmann::json::array();
  for (const auto& [name, t] : tensors) list.push_back({name, static_cast<int>(t.scalar_type()), t.sizes().vec()});
  return list;
}

}  // namespace

std::optional<Checkpoint> shared_checkpoint(std::optional<Checkpoint> mine, const Team& team) {
  if (team.size() == 1 || !team.any(mine.has_value())) return mine;
  std::vector<std::string> texts;
  if (mine) texts = {mine->state.dump(), list_tensors(mine->tensors).dump()};
  texts = team.gather_texts(texts);
  Checkpoint out;
  out.state = parse_json(texts.at(0), "the shared checkpoint");
  size_t index = 0;
  for (const auto& item : parse_json(texts.at(1), "the shared checkpoint")) {
    auto bytes = at::empty({0}, at::kByte);
    if (mine) bytes = mine->tensors[index].second.contiguous().flatten().view(at::kByte);
    const auto shape = item[2].get<std::vector<int64_t>>();
    const auto type = static_cast<at::ScalarType>(item[1].get<int>());
    const auto all = team.gather(bytes);
    out.tensors.emplace_back(item[0].get<std::string>(),
                             all.numel() == 0 ? at::empty(shape, type) : all.view(type).view(shape));
    ++index;
  }
  return out;
}

const torch::Tensor& Checkpoint::at(const std::string& name) const {
  for (const auto& [key, tensor] : tensors)
    if (key == name) return tensor;
  fail(where, " holds no '", name, "'; it was made by another version or method");
}

const torch::Tensor& Checkpoint::at(const std::string& name, at::IntArrayRef shape) const {
  const auto& out = at(name);
  check(out.sizes() == shape, where, ": '", name, "' has shape ", shape_text(out.sizes()), ", not ", shape_text(shape),
        "; it was made by another version or method");
  return out;
}

namespace {

// A file system without links gets a copy.
void take_over(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return;
  error.clear();
  fs::copy_file(from, to, error);
  if (error) fail_system(to, ": cannot be written: ", error.message());
  sync_to_disk(to);
}

}  // namespace

void save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, const KeptPart& kept, int64_t keep) {
  const int64_t step = checkpoint.state.at("global_step").get<int64_t>();
  const auto unfinished = cat(folder, "/", kUnfinished, step), path = path_of(folder, step);
  remove_tree(unfinished);
  make_folders(unfinished);
  try {
    auto state = checkpoint.state;
    state["kept_apart"] = kept.same_as.has_value() || !kept.tensors.empty();
    save_tensors(unfinished + "/state.safetensors", checkpoint.tensors, {{"state", state.dump()}});
    if (kept.same_as)
      take_over(path_of(folder, *kept.same_as) + kKept, unfinished + kKept);
    else if (!kept.tensors.empty())
      save_tensors(unfinished + kKept, kept.tensors, {});
    write_file_atomically(unfinished + "/trainer_state.json", state.dump(1) + "\n");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);  // a full disk must not keep the debris
    throw;
  }
  // The same step can be saved again, at a stage's end or after a resume. The two change places at one stroke; only
  // where the file system cannot do that is there a moment without either.
  if (renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    remove_tree(unfinished);
  } else {
    if (path_exists(path)) remove_tree(path);
    std::error_code error;
    fs::rename(unfinished, path, error);
    if (error) fail_system(path, ": cannot be written: ", error.message());
  }
  sync_to_disk(folder);
  auto steps = checkpoint_steps(folder);
  // Those with a higher number were not made on the way here: they must not push out the one just written.
  steps.erase(std::upper_bound(steps.begin(), steps.end(), step), steps.end());
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) remove_tree(path_of(folder, steps[i]));
}

void remove_unfinished_checkpoints(const std::string& folder) {
  for (const auto& name : list_folder(folder))
    if (name.rfind(kUnfinished, 0) == 0) remove_tree(folder + "/" + name);
}

LatestCheckpoint find_latest_checkpoint(const std::string& folder, CheckpointPart part) {
  LatestCheckpoint out;
  auto steps = checkpoint_steps(folder);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      out.checkpoint = load(path_of(folder, *step), part);
      break;
    } catch (const Error& error) {
      out.damaged.push_back({*step, error.what()});
    }
  }
  return out;
}

std::optional<Checkpoint> load_latest_checkpoint(const std::string& folder) {
  auto latest = find_latest_checkpoint(folder);
  for (const auto& damaged : latest.damaged) log_warn(cat(damaged.reason, "; going back to the checkpoint before it"));
  return std::move(latest.checkpoint);
}

void set_aside(const std::string& folder, const std::vector<DamagedCheckpoint>& damaged) {
  for (const auto& one : damaged) {
    auto place = cat(folder, "/", kDamaged, one.step);
    for (int copy = 2; path_exists(place); ++copy) place = cat(folder, "/", kDamaged, one.step, "-", copy);
    std::error_code error;
    fs::rename(path_of(folder, one.step), place, error);
    if (error) fail_system(path_of(folder, one.step), ": is damaged and cannot be renamed: ", error.message());
    log_warn(cat(one.reason, "; going back to the checkpoint before it, and this one is now ", place,
                 ", which you may delete"));
  }
  if (!damaged.empty()) sync_to_disk(folder);
}

}  // namespace asr
