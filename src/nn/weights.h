// The tensors of a model folder by name, mapped from its files without a copy. A model takes each one once, with the
// shape it must have; what is missing, misshapen or left over at the end is an error that names it.
#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "nn/linear.h"

namespace asr {

// A name under the first pair whose first text it begins with, that replaced by the second. A text that ends in no dot
// stands for whole parts of a name; "*" in it is a number, which the second text's "*" repeats.
std::string renamed(const std::string& name, const std::vector<std::pair<std::string, std::string>>& renames);

class Weights {
 public:
  // A folder or file. Model families have renamed their parts over the years: a tensor whose name begins with the first
  // of a pair is known under the second; the first pair that fits counts.
  explicit Weights(const std::string& path, const std::vector<std::pair<std::string, std::string>>& renames = {});
  // Whatever is taken is drawn at random, of this kind: to measure models whose files are not there.
  static Weights random(const at::TensorOptions& kind);

  // The same tensors, names given below `prefix` ("vision_tower.").
  Weights below(const std::string& prefix) const;

  bool has(const std::string& name) const;
  std::vector<int64_t> shape_of(const std::string& name) const;
  torch::Tensor take(const std::string& name, at::IntArrayRef shape);
  Linear linear(const std::string& name, int64_t out, int64_t in, bool bias);
  RmsNorm rms_norm(const std::string& name, int64_t width, double eps);
  LayerNorm layer_norm(const std::string& name, int64_t width, double eps);

  // A tensor that holds several of the model's below one another is known under theirs from now on: `groups` times the
  // parts in turn, each with its name and its rows in a group. One group is mapped without a copy as well.
  using Parts = std::vector<std::pair<std::string, int64_t>>;
  void unpack(const std::string& name, int64_t groups, const Parts& parts);

  void ignore(const std::string& name);  // known not to be used
  // Fails if a tensor of the file was neither taken nor ignored.
  void finish() const;

  const std::string& path() const;

 private:
  struct Stored {
    const TensorView* view = nullptr;
    size_t shard = 0;
    int64_t groups = 1, begin = 0, rows = 0;  // of every group, `rows` from `begin` on; 0: all of the tensor
    std::vector<int64_t> shape() const;
  };
  struct Files {
    std::string path;
    SafetensorsSet set;
    std::map<std::string, Stored> tensors;  // by the model's name
    std::set<std::string> taken;
    std::vector<std::pair<std::string, std::string>> renames;
    std::optional<at::TensorOptions> random;
  };
  Weights() : files_(std::make_shared<Files>()) {}
  std::shared_ptr<Files> files_;
  std::string prefix_;
};

}  // namespace asr
