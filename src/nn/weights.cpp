#include "nn/weights.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

// How much of `name` a pattern stands for, 0 where it does not fit; the numbers under its stars go into `numbers`.
size_t matched(const std::string& name, const std::string& pattern, std::vector<std::string>& numbers) {
  size_t at = 0;
  for (const char c : pattern) {
    if (c != '*') {
      if (at == name.size() || name[at++] != c) return 0;
      continue;
    }
    const size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
    if (end == at) return 0;
    numbers.push_back(name.substr(at, end - at));
    at = end;
  }
  const bool whole = at == 0 || at == name.size() || name[at] == '.' || pattern.back() == '.';
  return whole ? at : 0;
}

// The name under which files of the first of the pairs hold a tensor of today's name; empty where it is the same.
std::string name_before(const std::string& name, const std::vector<std::pair<std::string, std::string>>& renames) {
  auto turned = renames;
  for (auto& pair : turned) std::swap(pair.first, pair.second);
  const auto out = renamed(name, turned);
  return out == name ? "" : out;
}

// Of a size that keeps states at theirs from layer to layer.
torch::Tensor drawn(const std::string& name, at::IntArrayRef shape, const at::TensorOptions& kind) {
  if (shape.size() == 1 && ends_with(name, "weight")) return at::ones(shape, kind);
  const double fan_in = shape.size() > 1 ? static_cast<double>(c10::multiply_integers(shape.slice(1))) : 1e4;
  return at::randn(shape, kind).mul_(1 / std::sqrt(fan_in));
}

}  // namespace

std::string renamed(const std::string& name, const std::vector<std::pair<std::string, std::string>>& renames) {
  for (const auto& [from, to] : renames) {
    std::vector<std::string> numbers;
    const size_t length = matched(name, from, numbers);
    if (length == 0) continue;
    std::string out;
    size_t next = 0;
    for (const char c : to) out += c == '*' ? numbers.at(next++) : std::string(1, c);
    return out + name.substr(length);
  }
  return name;
}

Weights::Weights(const std::string& path, const std::vector<std::pair<std::string, std::string>>& renames)
    : files_(std::make_shared<Files>()) {
  files_->path = path;
  files_->renames = renames;
  files_->set = read_safetensors_set(path);
  for (size_t shard = 0; shard < files_->set.shards.size(); ++shard)
    for (const auto& view : files_->set.shards[shard].tensors) {
      // Tables that older versions of transformers saved beside the weights and that are computed here.
      if (ends_with(view.name, ".position_ids") || ends_with(view.name, ".rotary_emb.inv_freq")) continue;
      const auto name = renamed(view.name, renames);
      const bool fresh = files_->tensors.emplace(name, Stored{&view, shard}).second;
      check(fresh, path, ": two tensors are known as '", name, "'");
    }
}

Weights Weights::random(const at::TensorOptions& kind) {
  Weights out;
  out.files_->random = kind;
  return out;
}

std::vector<int64_t> Weights::Stored::shape() const {
  auto out = view->shape;
  if (rows > 0) out[0] = groups * rows;
  return out;
}

void Weights::unpack(const std::string& name, int64_t groups, const Parts& parts) {
  const auto shape = shape_of(name);
  int64_t rows = 0;
  for (const auto& part : parts) rows += part.second;
  const auto place = files_->tensors.find(prefix_ + name);
  const auto whole = place->second;
  check(whole.rows == 0 && !shape.empty() && shape[0] == groups * rows, files_->path, ": tensor '", whole.view->name,
        "' has shape ", shape_text(shape), " where config.json asks for ", groups * rows, " rows");
  files_->tensors.erase(place);
  int64_t begin = 0;
  for (const auto& [part, count] : parts) {
    const bool fresh =
        files_->tensors.emplace(prefix_ + part, Stored{whole.view, whole.shard, groups, begin, count}).second;
    check(fresh, files_->path, ": '", prefix_, part, "' is there twice, alone and in '", whole.view->name, "'");
    begin += count;
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
  if (place != files_->tensors.end()) return place->second.shape();
  std::vector<std::string> near;  // only names that end alike, so that a message stays one line
  const auto tail = name.substr(name.find('.') == std::string::npos ? 0 : name.rfind('.'));
  for (const auto& [known, stored] : files_->tensors)
    if (ends_with(known, tail)) near.push_back(known);
  if (near.size() > 400) near.resize(400);
  const auto before = name_before(prefix_ + name, files_->renames);
  fail(files_->path, ": tensor '", prefix_, name, "' is missing", before.empty() ? "" : " (in older files '", before,
       before.empty() ? "" : "')", did_you_mean(prefix_ + name, near));
}

torch::Tensor Weights::take(const std::string& name, at::IntArrayRef shape) {
  if (files_->random) return drawn(name, shape, *files_->random);
  const auto found = shape_of(name);
  const auto full = prefix_ + name;
  check(at::IntArrayRef(found) == shape, files_->path, ": tensor '", full, "' has shape ", shape_text(found),
        " where config.json asks for ", shape_text(shape));
  const auto& stored = files_->tensors.at(full);
  files_->taken.insert(full);
  const auto& file = files_->set.shards[stored.shard];
  const auto tensor = to_tensor(*stored.view, file.file, file.path);
  check(at::isFloatingType(tensor.scalar_type()), files_->path, ": tensor '", full, "' holds ",
        dtype_name(stored.view->dtype), ", not floating-point numbers");
  if (stored.rows == 0) return tensor;
  if (stored.groups == 1) return tensor.narrow(0, stored.begin, stored.rows);
  auto grouped = tensor.sizes().vec();
  grouped[0] /= stored.groups;
  grouped.insert(grouped.begin(), stored.groups);
  return tensor.view(grouped).narrow(1, stored.begin, stored.rows).flatten(0, 1);
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
  for (const auto& [name, stored] : files_->tensors)
    if (!files_->taken.count(name)) left.push_back(stored.view->name);
  check(left.empty(), files_->path, ": holds ", left.size(), " tensors that the model does not have, such as '",
        left.empty() ? "" : left.front(), "'; is config.json of this checkpoint?");
}

}  // namespace asr
