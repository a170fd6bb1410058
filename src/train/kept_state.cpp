#include "train/kept_state.h"

#include <algorithm>
#include <set>

#include "base/checksums.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/measure.h"

namespace asr {

// From another device piece by piece.
std::string hash_of(const torch::Tensor& value) {
  constexpr int64_t kPiece = int64_t(1) << 22;
  Sha256 hash;
  const auto flat = value.detach().contiguous().flatten();
  const int64_t step = flat.device().is_cpu() ? std::max<int64_t>(1, flat.numel()) : kPiece;
  for (int64_t begin = 0; begin < flat.numel(); begin += step) {
    const auto piece = flat.narrow(0, begin, std::min(step, flat.numel() - begin)).cpu();
    hash.update(piece.data_ptr(), piece.nbytes());
  }
  return hash.hex();
}

nlohmann::json ListedItem::to_json() const {
  return {{"name", name}, {"kind", name_of(kind)}, {"shape", shape}, {"bytes", bytes}, {"sha256", sha256}};
}

void StateHolder::tensor(const std::string& name, StateKind kind, torch::Tensor& value) {
  if (!value.defined()) return;
  const auto version = value.requires_grad() ? HeldItem::kTrained : static_cast<int64_t>(value._version());
  items.push_back({prefix_ + name, kind, value.detach(), version});
}

void StateHolder::text(const std::string& name, StateKind kind, std::string& value) {
  auto bytes = at::empty({static_cast<int64_t>(value.size())}, at::kByte);
  std::copy(value.begin(), value.end(), bytes.data_ptr<uint8_t>());
  items.push_back({prefix_ + name, kind, bytes, 0});
}

void StateLister::tensor(const std::string& name, StateKind kind, torch::Tensor& value) {
  if (!value.defined()) return;
  items.push_back({prefix_ + name, kind, value.sizes().vec(), static_cast<int64_t>(value.nbytes()),
                   hashes_ == ListHashes::yes ? hash_of(value) : std::string()});
}

void StateLister::text(const std::string& name, StateKind kind, std::string& value) {
  const auto size = static_cast<int64_t>(value.size());
  items.push_back({prefix_ + name, kind, {size}, size, hashes_ == ListHashes::yes ? sha256_of(value) : std::string()});
}

const torch::Tensor* StateLoader::find(const std::string& name) const {
  for (const auto& [key, tensor] : stored_)
    if (key == prefix_ + name) return &tensor;
  return nullptr;
}

bool is_of_samples(StateKind kind) {
  return kind == StateKind::sample || kind == StateKind::question || kind == StateKind::answer;
}

void StateLoader::tensor(const std::string& name, StateKind kind, torch::Tensor& value) {
  if (leaves(kind)) return;
  const auto* stored = find(name);
  value = stored ? stored->to(device_) : torch::Tensor();
}

void StateLoader::text(const std::string& name, StateKind kind, std::string& value) {
  if (leaves(kind)) return;
  const auto* stored = find(name);
  check(stored != nullptr, "the checkpoint holds no '", prefix_, name, "'");
  const auto bytes = stored->to(at::kCPU).contiguous();
  value.assign(reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>()), static_cast<size_t>(bytes.numel()));
}

std::vector<HeldItem> held_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods) {
  const auto names = method_parts(composition);
  std::vector<HeldItem> out;
  for (size_t i = 0; i < methods.size(); ++i) {
    StateHolder holder("method." + names[i] + ".");
    methods[i]->state(holder);
    out.insert(out.end(), holder.items.begin(), holder.items.end());
  }
  return out;
}

std::vector<ListedItem> listed_items(const std::string& composition,
                                     const std::vector<std::unique_ptr<Method>>& methods, ListHashes hashes) {
  const auto names = method_parts(composition);
  std::vector<ListedItem> out;
  for (size_t i = 0; i < methods.size(); ++i) {
    StateLister lister("method." + names[i] + ".", hashes);
    methods[i]->state(lister);
    out.insert(out.end(), lister.items.begin(), lister.items.end());
  }
  return out;
}

void load_kept_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods,
                     const NamedTensors& stored, at::Device device, LoadSamples samples) {
  const auto names = method_parts(composition);
  for (size_t i = 0; i < methods.size(); ++i) {
    StateLoader loader("method." + names[i] + ".", stored, device, samples);
    methods[i]->state(loader);
  }
}

std::vector<HeldItem> held_items(RunParts& parts) {
  auto out = held_items(parts.key.composition, parts.methods);
  StateHolder analysis("analysis."), adapters("adapter.");
  visit_memory(parts.analysis_memory, analysis);
  std::set<std::string> trained;
  for (const auto& [name, tensor] : parts.bank.trained()) trained.insert(name);
  for (auto& [name, tensor] : parts.bank.tensors())
    if (trained.count(name) == 0) adapters.tensor(name, StateKind::adapter, tensor);
  out.insert(out.end(), analysis.items.begin(), analysis.items.end());
  out.insert(out.end(), adapters.items.begin(), adapters.items.end());
  return out;
}

void load_method_items(RunParts& parts, const NamedTensors& stored) {
  load_kept_items(parts.key.composition, parts.methods, stored, parts.model.device());
}

std::vector<ListedItem> listed_items(const RunParts& parts, ListHashes hashes) {
  auto out = listed_items(parts.key.composition, parts.methods, hashes);
  std::set<std::string> trained;
  for (const auto& [name, tensor] : parts.bank.trained()) trained.insert(name);
  for (const auto& slot : parts.bank.slots()) {
    StateLister lister("slot.", hashes);
    const auto kind = parts.bank.layout(slot).teacher ? StateKind::teacher : StateKind::adapter;
    for (auto& [name, tensor] : parts.bank.tensors_of(slot))
      if (trained.count(name) == 0) lister.tensor(name, kind, tensor);
    out.insert(out.end(), lister.items.begin(), lister.items.end());
  }
  return out;
}

}  // namespace asr
