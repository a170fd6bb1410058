// A linear map with low-rank experts added to a frozen weight: y = W x + b + sum_e s_e B_e A_e x. One adapter type
// serves every method; switching the experts off gives the base model back, without a second copy of it.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace asr {

struct Expert {
  torch::Tensor a, b;  // [r, in], [out, r]
  double scale = 1;    // alpha / r
};

// Dropout on what the experts read. Masks are keyed by (key, number of the call), so that a step draws the same ones
// whenever it is run again.
struct AdapterDropout {
  double probability = 0;
  uint64_t key = 0;
  uint64_t calls = 0;
  // Where the samples of x stand in their batch, when it is spread over several processes; a sample then gets the mask
  // it has in the whole batch. Empty: x is the whole batch.
  std::vector<int64_t> positions = {};

  torch::Tensor operator()(const torch::Tensor& x);
};

// How a forward pass is run; passed down, never global.
struct Pass {
  uint64_t experts = 1;               // bit e: expert e takes part; 0 is the base model alone
  AdapterDropout* dropout = nullptr;  // null outside training
};

struct Linear {
  torch::Tensor weight, bias;  // [out, in], [out] or undefined
  std::vector<Expert> experts;

  torch::Tensor operator()(const torch::Tensor& x, const Pass& pass) const;
};

// Several maps of the same x, as one node of the graph.
std::vector<torch::Tensor> together(const std::vector<const Linear*>& maps, const torch::Tensor& x, const Pass& pass);

// A starts random with standard deviation 1/sqrt(in), B at zero, so that the adapted model begins as the base.
Expert make_expert(const Linear& linear, int64_t rank, double alpha, const at::Generator& generator);

// What a linear does in its model. q to down are the language model's (q to o a Q-Former's self-attention too), cross_*
// look at the picture, `vision` is the tower's attention, `projector` lies between tower and language model.
enum class SitePart { q, k, v, o, gate, up, down, cross_q, cross_k, cross_v, cross_o, vision, projector, other };

// A linear that may be adapted, with its name inside the model.
struct AdapterSite {
  std::string name;
  Linear* linear = nullptr;
  SitePart part = SitePart::other;
  int64_t layer = -1;  // of its tower, Q-Former or language model; -1 where there are no layers
};

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

// One more expert on every site; returns its tensors as "<site>.lora_A.weight" and "<site>.lora_B.weight".
NamedParameters add_experts(const std::vector<AdapterSite>& sites, int64_t rank, double alpha, uint64_t seed);

// Experts added into the weights, for inference at the base's cost; the base comes back, bit by bit, when this goes.
// Meanwhile passes run with no experts.
class MergedExperts {
 public:
  explicit MergedExperts(const std::vector<AdapterSite>& sites);
  ~MergedExperts();
  MergedExperts(const MergedExperts&) = delete;
  MergedExperts& operator=(const MergedExperts&) = delete;

 private:
  std::vector<std::pair<Linear*, torch::Tensor>> base_;
};

struct RmsNorm {
  torch::Tensor weight;
  double eps = 1e-6;
  torch::Tensor operator()(const torch::Tensor& x) const;
};

struct LayerNorm {
  torch::Tensor weight, bias;
  double eps = 1e-5;
  torch::Tensor operator()(const torch::Tensor& x) const;
};

}  // namespace asr
