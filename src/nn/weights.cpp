#include "nn/weights.h"

#include "base/error.h"
#include "base/text.h"
#include "tensor/tensor_io.h"

namespace asr {

std::string renamed(const std::string& name, const std::vector<std::pair<std::string, std::string>>& renames) {
  for (const auto& [from, to] : renames)
    if (name.compare(0, from.size(), from) == 0) return to + name.substr(from.size());
  return name;
}

Weights::Weights(const std::string& path, const std::vector<std::pair<std::string, std::string>>& renames)
    : files_(std::make_shared<Files>()) {
  files_->path = path;
  files_->set = read_safetensors_set(path);
  for (size_t shard = 0; shard < files_->set.shards.size(); ++shard)
    for (const auto& view : files_->set.shards[shard].tensors) {
      // Tables that older versions of transformers saved beside the weights and that are computed here.
      if (ends_with(view.name, ".position_ids") || ends_with(view.name, ".rotary_emb.inv_freq")) continue;
      const auto name = renamed(view.name, renames);
      const bool fresh = files_->tensors.emplace(name, std::make_pair(&view, shard)).second;
      check(fresh, path, ": two tensors are known as '", name, "'");
    }
}

Weights Weights::below(const std::string& prefix) const {
  Weights out = *this;
  out.prefix_ += prefix;
  return out;
}

const std::string& Weights::path() const {
  return files_->path;
}

bool Weights::has(const std::string& name) const {
  return files_->tensors.count(prefix_ + name) > 0;
}

std::vector<int64_t> Weights::shape_of(const std::string& name) const {
  const auto place = files_->tensors.find(prefix_ + name);
  if (place != files_->tensors.end()) return place->second.first->shape;
  std::vector<std::string> near;  // only names that end alike, so that a message stays one line
  const auto tail = name.substr(name.find('.') == std::string::npos ? 0 : name.rfind('.'));
  for (const auto& [known, view] : files_->tensors)
    if (ends_with(known, tail)) near.push_back(known);
  if (near.size() > 400) near.resize(400);
  fail(files_->path, ": tensor '", prefix_, name, "' is missing", did_you_mean(prefix_ + name, near));
}

torch::Tensor Weights::take(const std::string& name, at::IntArrayRef shape) {
  const auto found = shape_of(name);
  const auto full = prefix_ + name;
  check(at::IntArrayRef(found) == shape, files_->path, ": tensor '", full, "' has shape ", shape_text(found),
        " where config.json asks for ", shape_text(shape));
  const auto& [view, shard] = files_->tensors.at(full);
  files_->taken.insert(full);
  const auto& file = files_->set.shards[shard];
  const auto tensor = to_tensor(*view, file.file, file.path);
  check(at::isFloatingType(tensor.scalar_type()), files_->path, ": tensor '", full, "' holds ", dtype_name(view->dtype),
        ", not floating-point numbers");
  return tensor;
}

Linear Weights::linear(const std::string& name, int64_t out, int64_t in, bool bias) {
  Linear linear;
  linear.weight = take(name + ".weight", {out, in});
  if (bias) linear.bias = take(name + ".bias", {out});
  return linear;
}

RmsNorm Weights::rms_norm(const std::string& name, int64_t width, double eps) {
  return {take(name + ".weight", {width}), eps};
}

LayerNorm Weights::layer_norm(const std::string& name, int64_t width, double eps) {
  return {take(name + ".weight", {width}), take(name + ".bias", {width}), eps};
}

void Weights::ignore(const std::string& name) {
  files_->taken.insert(prefix_ + name);
}

void Weights::finish() const {
  std::vector<std::string> left;
  for (const auto& [name, view] : files_->tensors)
    if (!files_->taken.count(name)) left.push_back(name);
  check(left.empty(), files_->path, ": holds ", left.size(), " tensors that the model does not have, such as '",
        left.empty() ? "" : left.front(), "'; is config.json of this checkpoint?");
}

}  // namespace asr
