// The products behind adapted_linears(): forward and backward on flat rows, nothing recorded. On the CPU rows are split
// over our own threads with a single-threaded BLAS under each; elsewhere the library gets them whole.
#pragma once

#include <torch/types.h>

#include <vector>

#include "ops/adapted_linear.h"

namespace asr {

torch::Tensor flat_rows(const torch::Tensor& x);  // [..., width] -> [rows, width], contiguous

// to = scale * left^T right, summed in the type of `to`, which may keep more bits than the factors.
void multiply_transposed(const torch::Tensor& to, const torch::Tensor& left, const torch::Tensor& right, double scale);

// The tensors of one call, flattened and without history.
struct LinearOperands {
  torch::Tensor x;  // undefined in a backward pass that does not need it
  std::vector<LinearMap> maps;
  int64_t rows = 0, width = 0;  // of x
  at::TensorOptions kind = {};  // of x

  // What A reads, where no dropout is drawn on the way.
  torch::Tensor input(const LowRank& expert) const { return expert.input.defined() ? expert.input : x; }
  int64_t work_per_row() const {
    int64_t sum = 0;
    for (const auto& map : maps) sum += map.weight.rows() * map.weight.columns();
    return sum;
  }
};

LinearOperands plain_operands(const torch::Tensor& x, const std::vector<LinearMap>& maps);

struct LinearResult {
  std::vector<torch::Tensor> y;       // [rows, out] each
  std::vector<torch::Tensor> middle;  // x A^T of every expert in order, [rows, r] each
};

// The gradients of a call; entries that nobody needs stay undefined.
struct LinearGrads {
  struct Expert {
    torch::Tensor middle, a, b, input;  // middle: dy B, times the gate, [rows, r]
    torch::Tensor gate;                 // [rows, r]
  };
  torch::Tensor x;
  std::vector<torch::Tensor> weight, bias;
  std::vector<Expert> experts;
};

// x first, then weight and bias of each map, then a, b, input and gate of each of its experts.
struct LinearNeeds {
  bool x = false;
  struct Expert {
    bool a, b, input, gate;
  };
  std::vector<bool> weight, bias;
  std::vector<Expert> experts;
};

LinearResult linears_forward(const LinearOperands& o);
// `middle` as forward left it; dy [rows, out] a map, undefined where there is none.
LinearGrads linears_backward(const LinearOperands& o, const std::vector<torch::Tensor>& middle,
                             const std::vector<torch::Tensor>& dy, const LinearNeeds& needs);

}  // namespace asr
