// Tensors to and from safetensors files. Types that libtorch lacks (or 1.13 lacks) are widened on reading:
// F8 to float32, U16 to int32, U32 and U64 to int64. Everything else is mapped without a copy.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"

namespace asr {

// The tensor shares the file's mapping and keeps it alive.
torch::Tensor to_tensor(const TensorView& view, const std::shared_ptr<MappedFile>& file, const std::string& path);
torch::Tensor load_tensor(const Safetensors& file, const std::string& name);
torch::Tensor load_real(const Safetensors& file, const std::string& name);   // refuses complex numbers
torch::Tensor load_index(const Safetensors& file, const std::string& name);  // integers alone, as int64

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;
void save_tensors(const std::string& path, const NamedTensors& tensors,
                  const std::map<std::string, std::string>& metadata);

// "[2, 3, 4]", put into words only where a check fails: checks stand in every training step.
struct ShapeText {
  at::IntArrayRef shape;
};
std::ostream& operator<<(std::ostream& out, const ShapeText& text);
inline ShapeText shape_text(at::IntArrayRef shape) {
  return {shape};
}

}  // namespace asr
