// The tensors of a model folder by name, mapped from its files without a copy. A model takes each one once, with the
// shape it must have; what is missing, misshapen or left over at the end is an error that names it.
#pragma once

#include <torch/types.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "nn/linear.h"

namespace asr {

// A name under the first pair whose first text it begins with, that replaced by the second.
std::string renamed(const std::string& name, const std::vector<std::pair<std::string, std::string>>& renames);

class Weights {
 public:
  // A folder or file. Model families have renamed their parts over the years: a tensor whose name begins with the first
  // of a pair is known under the second; the first pair that fits counts.
  explicit Weights(const std::string& path, const std::vector<std::pair<std::string, std::string>>& renames = {});

  // The same tensors, names given below `prefix` ("vision_tower.").
  Weights below(const std::string& prefix) const;

  bool has(const std::string& name) const;
  std::vector<int64_t> shape_of(const std::string& name) const;
  torch::Tensor take(const std::string& name, at::IntArrayRef shape);
  Linear linear(const std::string& name, int64_t out, int64_t in, bool bias);
  RmsNorm rms_norm(const std::string& name, int64_t width, double eps);
  LayerNorm layer_norm(const std::string& name, int64_t width, double eps);

  void ignore(const std::string& name);  // known not to be used
  // Fails if a tensor of the file was neither taken nor ignored.
  void finish() const;

  const std::string& path() const;

 private:
  struct Files {
    std::string path;
    SafetensorsSet set;
    std::map<std::string, std::pair<const TensorView*, size_t>> tensors;  // by the model's name; the shard
    std::set<std::string> taken;
  };
  std::shared_ptr<Files> files_;
  std::string prefix_;
};

}  // namespace asr
