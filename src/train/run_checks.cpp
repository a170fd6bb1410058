// What every check of a run's files uses: JSON, tensors and texts of declared form.
#include "train/run_checks.h"

#include <algorithm>
#include <cstring>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "io/safetensors_header.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

std::string hash_of_bytes(const void* data, size_t size) {
  Sha256 hash;
  hash.update(data, size);
  return hash.hex();
}

bool is_named(const StateShape& shape, const std::string& name) {
  if (!ends_with(shape.name, "*")) return shape.name == name;
  return name.compare(0, shape.name.size() - 1, shape.name, 0, shape.name.size() - 1) == 0;
}

}  // namespace

void RunChecks::text(const std::string& name, const std::string& kind, const std::string& content) {
  findings.parts.push_back({name, name, kind, static_cast<int64_t>(content.size()),
                            hash_of_bytes(content.data(), content.size()), search.find(content)});
}

void RunChecks::match(const nlohmann::json& value, const nlohmann::json& shape, const std::string& where) {
  match_json(value, shape, facts.names, where, findings.violations);
}

nlohmann::json RunChecks::json_file(const std::string& name, const nlohmann::json& shape, int indent) {
  const auto content = read_file(path_of(name), kLargestJson);
  text(name, "settings", content);
  auto value = parse_json(content, name);
  if (value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" != content)
    violation(name + ": is not written as the program writes it");
  match(value, shape, name);
  return value;
}

Safetensors RunChecks::tensor_file(const std::string& name, const std::vector<std::string>& keys) {
  auto file = read_safetensors(path_of(name));
  file.path = name;
  verify_checksum(file);
  std::vector<const TensorView*> tensors;
  for (const auto& view : file.tensors) tensors.push_back(&view);
  const auto header = safetensors_header(tensors, file.metadata, name);
  const auto* bytes = file.file->bytes().data;
  const bool same = file.file->bytes().size >= 8 + header.size() && bytes[0] == (header.size() & 255) &&
                    std::memcmp(bytes + 8, header.data(), header.size()) == 0;
  if (!same) violation(name + ": its header is not written as the program writes it");
  for (const auto& [key, value] : file.metadata)
    if (key != "sha256" && std::find(keys.begin(), keys.end(), key) == keys.end())
      violation(cat(name, ": metadata '", printable(key), "' is not one that a run writes"));
  return file;
}

void RunChecks::metadata(const Safetensors& file, const std::string& key, const std::string& expected) {
  const auto stored = file.metadata.find(key);
  if (stored != file.metadata.end() && stored->second != expected)
    violation(cat(file.path, ": metadata '", key, "' is not what the run's options give"));
}

void RunChecks::tensor(const Safetensors& file, const TensorView& view, const std::vector<StateShape>& shapes,
                       const std::string& prefix, const std::string& kind) {
  const auto tensor = load_tensor(file, view.name);
  findings.parts.push_back({file.path, view.name, kind, static_cast<int64_t>(view.data.size),
                            hash_of_bytes(view.data.data, view.data.size), search.find(tensor)});
  const auto shape = std::find_if(shapes.begin(), shapes.end(), [&](const StateShape& declared) {
    auto full = declared;
    full.name = prefix + declared.name;
    return is_named(full, view.name);
  });
  if (shape == shapes.end()) return violation(cat(file.path, ": tensor '", printable(view.name), "' is undeclared"));
  bool fits = shape->most.size() == view.shape.size();
  for (size_t i = 0; fits && i < view.shape.size(); ++i) fits = view.shape[i] <= shape->most[i];
  if (!fits)
    violation(cat(file.path, ": tensor '", printable(view.name), "' of shape ", shape_text(view.shape),
                  " is larger than its method declares"));
}

}  // namespace asr
