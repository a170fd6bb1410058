// Tensors that can be made again, kept as files of a folder for later runs: pictures that were drawn, and what a frozen
// vision tower made of them. Any number of processes may share the folder. It never stops a run: what is absent or
// damaged is made again, and what cannot be written is not kept.
#pragma once

#include <torch/types.h>

#include <string>

namespace asr {

class TensorCache {
 public:
  explicit TensorCache(std::string folder);  // made where it is missing; where that fails, an error says why

  // `name` stands for the content: whoever would make another tensor must ask by another name. Undefined: not there, or
  // damaged, which is said in one line. On the CPU.
  torch::Tensor find(const std::string& name) const;
  // Numbers of one byte, or float32. Where another process is writing the same just now, nothing is done.
  void keep(const std::string& name, const torch::Tensor& tensor) const;

 private:
  std::string path_of(const std::string& name) const { return folder_ + "/" + name + ".tensor"; }

  std::string folder_;
};

}  // namespace asr
