// A linear map with low-rank experts added to a frozen weight: y = W x + b + sum_e g_e s_e B_e A_e x. One adapter type
// serves every method. Experts come in slots (adapters/bank.h), each with a gate that says what g is; switching all
// slots off gives the base model back, without a second copy of it.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "ops/keyed_dropout.h"
#include "ops/weight.h"

namespace asr {

struct Expert {
  torch::Tensor a, b;  // [r, in], [out, r]; experts may share a
  double scale = 1;    // alpha / r
};

// Where the weights of a slot's experts come from.
enum class GateKind {
  sum,     // 1 each
  given,   // Pass::given
  router,  // softmax of `router` times what it reads
  fused,   // experts of all fused slots as one: (sum B)(sum A)
};

// What a router reads: each token's own state, or one state of the whole sequence, which then serves all its tokens,
// those generated later too.
enum class RouterReads { token, first, mean };

struct Gate {
  GateKind kind = GateKind::sum;
  torch::Tensor router;  // [experts, in]
  // Others of the same shape; Pass::given then weighs the routers, these first and `router` last: [R] or [B, R].
  std::vector<torch::Tensor> earlier_routers = {};
  RouterReads reads = RouterReads::token;
  int64_t top_k = 0;        // only the k largest of a router count, as they are; 0: all
  double router_share = 1;  // of a mixture with the given weights, which get the rest; 1: router alone
};

// What a slot has at one linear map.
struct SlotAtSite {
  std::vector<Expert> experts;
  Gate training = {}, answering = {};
  torch::Tensor full_weight = {};  // a trained copy that stands for the weight, or undefined
  bool empty() const { return experts.empty() && !full_weight.defined(); }
};

// Weights that were found before the pass, by slot: [E] or [B, E] for its experts, or [R] or [B, R] for the columns of
// their joined ranks.
using GivenWeights = std::map<size_t, torch::Tensor>;

// Weights that a gate has made of a sequence when its prompt was read; generation goes on with them.
struct GateLatch {
  std::map<std::pair<const void*, size_t>, torch::Tensor> weights;  // [B, E] by linear map and slot
  void keep_rows(const torch::Tensor& index);                       // of the samples that stay in the batch
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
  torch::Tensor positions_there = {};  // as in DropoutKey: one copy serves all calls of a pass

  DropoutKey key_for(const torch::Tensor& x);  // of the next call; counts it
};

struct Linear;

// Weights with experts added, by linear map, for passes that weigh these alike in all rows (nn/merged_weights.h).
using MergedWeights = std::map<const Linear*, torch::Tensor>;

// Sees what linear maps read, for statistics of their inputs.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  virtual void see(const Linear& linear, const torch::Tensor& x) = 0;
  // What a router gave the experts of a slot, [.., E] of tokens or [B, E] of sequences, and Pass::sequence_mask.
  virtual void see_weights(const Linear& /*linear*/, size_t /*slot*/, const torch::Tensor& /*weights*/,
                           const torch::Tensor& /*mask*/) {}
};

// How a forward pass is run; passed down, never global.
struct Pass {
  uint64_t slots = 1;                   // bit k: slot k takes part; 0 is the run's original base
  AdapterDropout* dropout = nullptr;    // null outside training
  const GivenWeights* given = nullptr;  // for gates that are given their weights
  GateLatch* latch = nullptr;           // for gates that read the sequence, while answers are generated
  // What stands for weight and experts of the maps in it; made for these slots and weights. Null: none.
  const MergedWeights* merged = nullptr;
  bool answering = false;  // which of a slot's two gates counts
  InputObserver* observer = nullptr;
  torch::Tensor sequence_mask = {};  // [B, T] of real tokens, set by a decoder for gates that read the sequence
  torch::Tensor row_samples = {};    // [rows of x]: the sample of each, where rows are no samples (patches, tiles)
};

struct Linear {
  torch::Tensor weight, bias;          // [out, in], [out] or undefined
  Weight few_bits = {};                // the weight in another format, which then counts; see keep_in()
  std::vector<SlotAtSite> slots = {};  // by the bank's numbers
  torch::Tensor merged = {};  // the weight with merged slots added, or undefined; the base pass does not read it

  torch::Tensor operator()(const torch::Tensor& x, const Pass& pass) const;
  bool has_experts(uint64_t chosen) const;  // any of these slots' here; each such call draws dropout once
};

// Puts a frozen weight into a format. fp8 keeps the numbers too, for merging; nf4 does not: `weight` then only says
// shape and type, and holds no number (NaN).
void keep_in(Linear& linear, WeightFormat format);
torch::Tensor base_weight(const Linear& linear);  // the numbers, whatever the format
// The weight that counts in a pass; its experts come on top.
Weight weight_in(const Linear& linear, const Pass& pass);

// Several maps of the same x, as one node of the graph.
std::vector<torch::Tensor> together(const std::vector<const Linear*>& maps, const torch::Tensor& x, const Pass& pass);

// A starts random with standard deviation 1/sqrt(in), B at zero, so that the adapted model begins as the base.
Expert make_expert(const Linear& linear, int64_t rank, double alpha, const at::Generator& generator);

// The weight with `sign` times the experts of these slots added, computed in float32 at least and rounded to the
// weight's own type.
torch::Tensor merged_weight(const Linear& linear, uint64_t chosen, double sign = 1);

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

// One more slot with an expert on every site; returns its tensors as "<site>.lora_A.weight" and "<site>.lora_B.weight".
NamedParameters add_experts(const std::vector<AdapterSite>& sites, int64_t rank, double alpha, uint64_t seed);

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
