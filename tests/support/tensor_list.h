// Tensors for a safetensors file, without torch.
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"

namespace asr {

// Owns the bytes that its views point to.
class TensorList {
 public:
  template <class T>
  void add(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape, const std::vector<T>& values) {
    buffers_.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    views_.push_back({name, dtype, shape, {}});
  }
  std::vector<TensorView> views() {
    for (size_t i = 0; i < views_.size(); ++i)
      views_[i].data = {reinterpret_cast<const uint8_t*>(buffers_[i].data()), buffers_[i].size()};
    return views_;
  }

 private:
  std::vector<std::string> buffers_;
  std::vector<TensorView> views_;
};

}  // namespace asr
