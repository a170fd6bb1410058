// Models in bfloat16 and on a GPU: what must be computed in float32 is, and attention takes no mask, an aligned one or
// the order alone, with the same result. On a machine without a GPU the CPU alone is compared.
#include "nn/attention.h"
#include "nn/linear.h"
#include "nn/tap.h"
#include "ops/rms_norm.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

double share_unequal(const torch::Tensor& found, const torch::Tensor& exact) {
  const auto rounded = exact.to(at::kBFloat16);
  return found.cpu().ne(rounded.cpu()).to(at::kDouble).mean().item<double>();
}

// With weights of one, a norm computed in float32 is the exact one rounded once.
TEST(Precision, NormsOfBfloat16AreComputedInFloat32) {
  torch::manual_seed(3);
  const auto given = (torch::randn({64, 4096}) * 3 + 0.5).to(at::kBFloat16), exact = given.to(at::kDouble);
  const auto centred = exact - exact.mean(-1, true);
  const auto by_square = exact / (exact.square().mean(-1, true) + 1e-6).sqrt(),
             by_variance = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
  for (const auto& device : devices()) {
    const auto x = given.to(device);
    const auto one = torch::ones({4096}, x.options()), zero = torch::zeros({4096}, x.options());
    EXPECT_LE(share_unequal(rms_norm(x, one, 1e-6), by_square), 1e-3) << device;
    EXPECT_LE(share_unequal(add_rms_norm(x, torch::zeros_like(x), one, 1e-6).second, by_square), 1e-3) << device;
    if (!device.is_cuda()) continue;  // a CPU never computes in bfloat16
    EXPECT_LE(share_unequal(LayerNorm{one, zero, 1e-5}(x), by_variance), 1e-3) << device;
  }
}

TEST(Precision, TheWeightMultipliesWhatIsRounded) {  // as transformers has it
  torch::manual_seed(4);
  const auto x = torch::randn({8, 64}).to(at::kBFloat16), weight = torch::randn({64}).to(at::kBFloat16);
  const auto real = x.to(at::kFloat);
  const auto normed = real * (real.square().mean(-1, true) + 1e-6).rsqrt();
  EXPECT_TRUE(rms_norm(x, weight, 1e-6).equal(weight * normed.to(at::kBFloat16)));
}

TEST(Precision, TappedRowsOfBfloat16AreFloat32) {
  torch::manual_seed(5);
  TapRequest request;
  request.rows = torch::tensor({3, 7, -1}).view({1, 3});
  request.columns = torch::arange(6).view({1, 6});
  for (const auto& device : devices()) {
    const auto q = torch::randn({1, 2, 9, 16}).to(device, at::kBFloat16),
               k = torch::randn({1, 2, 9, 16}).to(device, at::kBFloat16);
    auto asked = request;
    asked.rows = asked.rows.to(device);
    asked.columns = asked.columns.to(device);
    const auto rows = attention_rows(q, k, {}, true, asked);
    EXPECT_EQ(rows.scalar_type(), at::kFloat);
    const auto exact = attention_rows(q.to(at::kDouble), k.to(at::kDouble), {}, true, asked);
    EXPECT_LE((rows - exact).abs().max().item<double>(), 1e-2);
    // Row 3 sees 4 keys: float32 weights add up to one, bfloat16 ones would not.
    EXPECT_NEAR(rows.select(2, 0).sum(-1).mean().item<double>(), 1, 1e-6);
  }
}

TEST(Attention, KnowsWhenTheOrderHidesPadding) {
  const auto mask = [](std::vector<int64_t> bits) { return torch::tensor(bits).view({2, -1}).ne(0); };
  EXPECT_TRUE(order_hides_padding(mask({1, 1, 1, 1, 1, 1})));
  EXPECT_TRUE(order_hides_padding(mask({1, 1, 0, 1, 0, 0})));
  EXPECT_TRUE(order_hides_padding(mask({1, 0})));
  EXPECT_FALSE(order_hides_padding(mask({1, 1, 1, 0, 1, 1})));
  EXPECT_FALSE(order_hides_padding(mask({1, 0, 1, 1, 1, 1})));
}

struct MaskCase {
  const char* what;
  int64_t heads, kv_heads, queries, keys;
  bool causal;
  int64_t left, right;  // padding of the second sample
};

// Rows of real queries, flattened over samples.
torch::Tensor read_rows(const torch::Tensor& out, const torch::Tensor& real) {
  return out.transpose(1, 2).index({real.to(out.device())});
}

void expect_equal_attention(const MaskCase& c, at::Device device, at::ScalarType type, double tolerance) {
  torch::manual_seed(c.keys);
  const auto random = [&](int64_t heads, int64_t tokens) {
    return torch::randn({2, tokens, heads, 16}).to(device, type).transpose(1, 2).requires_grad_();
  };
  const std::vector<torch::Tensor> x = {random(c.heads, c.queries), random(c.kv_heads, c.keys),
                                        random(c.kv_heads, c.keys)};
  std::vector<torch::Tensor> exact;
  for (const auto& one : x) exact.push_back(one.detach().cpu().to(at::kDouble).requires_grad_());
  auto mask = torch::ones({2, c.keys}, at::kBool);
  mask[1].narrow(0, 0, c.left).fill_(false);
  mask[1].narrow(0, c.keys - c.right, c.right).fill_(false);
  const auto real = c.causal ? mask.narrow(1, c.keys - c.queries, c.queries) : torch::ones({2, c.queries}, at::kBool);
  const bool by_order = c.causal && c.queries == c.keys && order_hides_padding(mask);
  const bool maskless = by_order || (c.left == 0 && c.right == 0);
  const auto expected = read_rows(attend_reference(exact[0], exact[1], exact[2], mask, c.causal), real);
  const auto factor = torch::randn(expected.sizes(), at::kDouble);
  const auto right = gradients((expected * factor).sum(), exact);
  for (const bool masked : {true, false}) {
    if (!masked && !maskless) continue;
    const auto found = read_rows(attend(x[0], x[1], x[2], masked ? mask.to(device) : torch::Tensor(), c.causal), real);
    const auto what = cat(c.what, masked ? ", masked, " : ", by order, ", device.str(), " ", c10::toString(type));
    expect_close(found, expected, tolerance, what);
    const auto grads = gradients((found.to(at::kDouble) * factor.to(device)).sum(), x);
    for (size_t i = 0; i < 3; ++i) expect_close(grads[i], right[i], 3 * tolerance, what + cat(", gradient ", i));
  }
}

TEST(Attention, WithoutAMaskEqualsAttentionWithOne) {
  const std::vector<MaskCase> cases = {
      {"all real", 4, 4, 24, 24, true, 0, 0},       {"padding at the right", 4, 4, 21, 21, true, 0, 6},
      {"grouped, right", 6, 2, 16, 16, true, 0, 5}, {"padding at the left", 4, 4, 21, 21, true, 7, 0},
      {"grouped, left", 6, 2, 19, 19, true, 3, 0},  {"one more token", 4, 2, 1, 13, true, 0, 0},
      {"one more, left", 4, 2, 1, 13, true, 4, 0},  {"some more tokens", 4, 4, 3, 13, true, 0, 0},
      {"no order", 4, 4, 9, 17, false, 0, 0},       {"no order, masked", 4, 4, 9, 17, false, 0, 5},
  };
  for (const auto& device : devices())
    for (const auto& c : cases) {
      expect_equal_attention(c, device, at::kFloat, 2e-5);
      if (!device.is_cuda()) continue;
      expect_equal_attention(c, device, at::kBFloat16, 2e-2);
      expect_equal_attention(c, device, at::kHalf, 4e-3);
    }
}

}  // namespace
}  // namespace asr
