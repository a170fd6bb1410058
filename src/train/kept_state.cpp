#include "train/kept_state.h"

#include "base/error.h"
#include "base/sha256.h"

namespace asr {

nlohmann::json KeptItem::to_json() const {
  const auto bytes = tensor.contiguous();
  const size_t size = bytes.nbytes();
  Sha256 hash;
  hash.update(bytes.data_ptr(), size);
  return {
      {"name", name}, {"kind", name_of(kind)}, {"shape", bytes.sizes().vec()}, {"bytes", size}, {"sha256", hash.hex()}};
}

void StateSaver::tensor(const std::string& name, StateKind kind, torch::Tensor& value) {
  if (value.defined()) items.push_back({prefix_ + name, kind, value.detach().cpu().contiguous().clone()});
}

void StateSaver::text(const std::string& name, StateKind kind, std::string& value) {
  auto bytes = at::empty({static_cast<int64_t>(value.size())}, at::kByte);
  std::copy(value.begin(), value.end(), bytes.data_ptr<uint8_t>());
  items.push_back({prefix_ + name, kind, bytes});
}

const torch::Tensor* StateLoader::find(const std::string& name) const {
  for (const auto& [key, tensor] : stored_)
    if (key == prefix_ + name) return &tensor;
  return nullptr;
}

void StateLoader::tensor(const std::string& name, StateKind, torch::Tensor& value) {
  const auto* stored = find(name);
  value = stored ? stored->to(device_) : torch::Tensor();
}

void StateLoader::text(const std::string& name, StateKind, std::string& value) {
  const auto* stored = find(name);
  check(stored != nullptr, "the checkpoint holds no '", prefix_, name, "'");
  const auto bytes = stored->to(at::kCPU).contiguous();
  value.assign(reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>()), static_cast<size_t>(bytes.numel()));
}

std::vector<KeptItem> kept_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods) {
  const auto names = method_parts(composition);
  std::vector<KeptItem> out;
  for (size_t i = 0; i < methods.size(); ++i) {
    StateSaver saver("method." + names[i] + ".");
    methods[i]->state(saver);
    out.insert(out.end(), saver.items.begin(), saver.items.end());
  }
  return out;
}

void load_kept_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods,
                     const NamedTensors& stored, at::Device device) {
  const auto names = method_parts(composition);
  for (size_t i = 0; i < methods.size(); ++i) {
    StateLoader loader("method." + names[i] + ".", stored, device);
    methods[i]->state(loader);
  }
}

}  // namespace asr
