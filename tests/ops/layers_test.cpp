// Every fused layer against its plain form: values and gradients, in float where the kernels are, with the plain form
// in double as the judge.
#include <functional>

#include "nn/attention.h"
#include "ops/adapted_linear.h"
#include "ops/gated_silu.h"
#include "ops/mean_tokens.h"
#include "ops/rms_norm.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using Inputs = std::vector<torch::Tensor>;
using Layer = std::function<Inputs(const Inputs&)>;

torch::Tensor projection(const Inputs& outputs) {
  torch::Tensor sum;
  for (const auto& y : outputs) {
    auto generator = at::detail::createCPUGenerator(17);
    const auto factor = at::randn(y.sizes(), generator, at::CPU(at::kDouble)).to(y.scalar_type());
    sum = sum.defined() ? sum + (y * factor).sum() : (y * factor).sum();
  }
  return sum;
}

// Inputs that require grad are compared in their gradients too.
void expect_agreement(const Layer& fused, const Layer& plain, const Inputs& inputs, const std::string& what) {
  Inputs wide, learnt, learnt_wide;
  for (const auto& x : inputs) {
    const bool floating = x.defined() && x.is_floating_point();
    wide.push_back(floating ? x.detach().to(at::kDouble).requires_grad_(x.requires_grad()) : x);
    if (x.defined() && x.requires_grad()) {
      learnt.push_back(x);
      learnt_wide.push_back(wide.back());
    }
  }
  const auto found = fused(inputs), expected = plain(wide);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], 2e-5, what + cat(": output ", i));
  if (learnt.empty()) return;
  const auto grads = gradients(projection(found), learnt), right = gradients(projection(expected), learnt_wide);
  for (size_t i = 0; i < grads.size(); ++i) {
    ASSERT_TRUE(grads[i].defined()) << what << ": gradient " << i;
    expect_close(grads[i], right[i], 5e-5, what + cat(": gradient ", i));
  }
}

struct AttentionCase {
  int64_t batch, heads, kv_heads, queries, keys, width;
  bool causal;
};

Inputs random_attention_inputs(const AttentionCase& c) {
  torch::manual_seed(c.queries * 100 + c.keys);
  auto mask = torch::rand({c.batch, c.keys}).gt(0.3);
  mask.select(1, 0).fill_(true);  // every causal row sees a key
  // Heads come out of a linear map token by token: strided, as in the models.
  const auto heads = [&](int64_t count, int64_t tokens) {
    return torch::randn({c.batch, tokens, count, c.width}).transpose(1, 2).requires_grad_();
  };
  return {heads(c.heads, c.queries), heads(c.kv_heads, c.keys), heads(c.kv_heads, c.keys), mask};
}

const std::vector<AttentionCase> kAttention = {
    {2, 4, 4, 78, 78, 32, true},  {2, 4, 4, 64, 64, 32, false}, {1, 4, 2, 5, 5, 8, true},
    {3, 6, 2, 7, 19, 12, true},   {2, 2, 2, 1, 33, 16, true},   {2, 4, 4, 12, 16, 8, false},
    {1, 3, 1, 40, 100, 5, false}, {1, 1, 1, 1, 1, 1, true},     {1, 2, 1, 33, 65, 64, true},
};

TEST(Attention, AgreesWithThePlainForm) {
  for (const auto& c : kAttention) {
    const auto plain = [&](const Inputs& x) { return Inputs{attend_reference(x[0], x[1], x[2], x[3], c.causal)}; };
    const auto fused = [&](const Inputs& x) { return Inputs{attend(x[0], x[1], x[2], x[3], c.causal)}; };
    expect_agreement(fused, plain, random_attention_inputs(c),
                     cat(c.heads, " heads, ", c.queries, " x ", c.keys, " of ", c.width));
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  auto inputs = random_attention_inputs(kAttention[0]);
  inputs[0] = (inputs[0].detach() * 60).requires_grad_();
  const auto plain = [&](const Inputs& x) { return Inputs{attend_reference(x[0], x[1], x[2], x[3], true)}; };
  const auto fused = [&](const Inputs& x) { return Inputs{attend(x[0], x[1], x[2], x[3], true)}; };
  const auto found = fused(inputs)[0], expected = plain(inputs)[0];
  expect_close(found, expected, 1e-4, "scores in the hundreds");
}

TEST(Attention, AQueryWithoutKeysIsFiniteAndHarmsNobody) {
  const AttentionCase c{2, 4, 2, 9, 9, 16, true};
  auto inputs = random_attention_inputs(c);
  inputs[3] = torch::ones({2, 9}, at::kBool);
  inputs[3][1].slice(0, 0, 4).fill_(false);  // padding on the left: the first four queries of sample 1 see nothing
  inputs[3][0].fill_(false);                 // and sample 0 has no key at all
  const auto rows = [](const torch::Tensor& y) { return y.narrow(0, 1, 1).narrow(2, 4, 5); };
  const auto found = attend(inputs[0], inputs[1], inputs[2], inputs[3], true);
  EXPECT_TRUE(found.isfinite().all().item<bool>());
  for (const auto& grad : gradients(found.sum(), {inputs[0], inputs[1], inputs[2]}))
    EXPECT_TRUE(grad.isfinite().all().item<bool>());
  const auto plain = [&](const Inputs& x) { return Inputs{rows(attend_reference(x[0], x[1], x[2], x[3], true))}; };
  const auto fused = [&](const Inputs& x) { return Inputs{rows(attend(x[0], x[1], x[2], x[3], true))}; };
  expect_agreement(fused, plain, inputs, "the rows that are read");
}

TEST(Attention, BitsDoNotDependOnThreads) {
  const auto inputs = random_attention_inputs(kAttention[0]);
  const int before = runtime_info().threads;
  const auto run = [&](int threads) {
    set_compute_threads(threads);
    const auto out = attend(inputs[0], inputs[1], inputs[2], inputs[3], true);
    auto all = gradients(projection({out}), {inputs[0], inputs[1], inputs[2]});
    all.push_back(out);
    return all;
  };
  const auto one = run(1), three = run(3);
  set_compute_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

TEST(Attention, SecondDerivativesAreRefused) {
  const auto x = random_attention_inputs(kAttention[2]);
  const auto y = attend(x[0], x[1], x[2], x[3], true).sum();
  EXPECT_CONTAINS(error_of([&] { torch::autograd::grad({y}, {x[0]}, {}, none, /*create_graph=*/true); }),
                  "second derivative");
}

TEST(Rotation, AgreesWithThePlainForm) {
  torch::manual_seed(5);
  for (const int64_t width : {2, 8, 32, 64})
    for (const bool shared : {true, false}) {
      const auto positions = shared ? torch::arange(7).expand({3, 7}) : torch::randint(0, 5000, {3, 7});
      const auto x = torch::randn({3, 7, 4, width}).transpose(1, 2).requires_grad_();
      const auto fused = [&](const Inputs& in) { return Inputs{rotate(in[0], positions, 10000)}; };
      const auto plain = [&](const Inputs& in) {
        return Inputs{rotate_reference(in[0], make_rotary(positions, width, 10000, at::kDouble))};
      };
      expect_agreement(fused, plain, {x}, cat("width ", width));
      const auto wide = [&](const Inputs& in) {
        const auto table = make_rotary(positions, width, 10000, in[0].scalar_type());
        return Inputs{rotate_wide(in[0], wide_rotary_table(table.cosine, table.sine))};
      };
      expect_agreement(wide, plain, {x}, cat("wide table, width ", width));
    }
}

TEST(Norm, AgreesWithThePlainForm) {
  torch::manual_seed(6);
  for (const int64_t width : {1, 7, 32, 128, 200})
    for (const bool trained : {true, false}) {
      const auto x = torch::randn({3, 11, width}).requires_grad_(),
                 added = torch::randn({3, 11, width}).requires_grad_();
      const auto weight = torch::rand({width}).add(0.5).requires_grad_(trained);
      expect_agreement([](const Inputs& in) { return Inputs{rms_norm(in[0], in[1], 1e-6)}; },
                       [](const Inputs& in) { return Inputs{rms_norm_reference(in[0], in[1], 1e-6)}; }, {x, weight},
                       cat("norm of ", width));
      const auto sum_and_norm = [](const Inputs& in) {
        const auto [sum, normed] = add_rms_norm(in[0], in[1], in[2], 1e-6);
        return Inputs{sum, normed};
      };
      const auto plain = [](const Inputs& in) {
        return Inputs{in[0] + in[1], rms_norm_reference(in[0] + in[1], in[2], 1e-6)};
      };
      expect_agreement(sum_and_norm, plain, {x, added, weight}, cat("sum and norm of ", width));
    }
}

TEST(Norm, TheSumAloneOrTheNormAloneMayBeUsed) {
  torch::manual_seed(7);
  const auto x = torch::randn({4, 16}).requires_grad_(), added = torch::randn({4, 16}).requires_grad_();
  const auto weight = torch::ones({16});
  const auto only_sum = gradients(add_rms_norm(x, added, weight, 1e-6).first.sum(), {x, added});
  EXPECT_TRUE(at::equal(only_sum[0], torch::ones({4, 16})) && at::equal(only_sum[1], torch::ones({4, 16})));
  expect_agreement([&](const Inputs& in) { return Inputs{add_rms_norm(in[0], in[1], weight, 1e-6).second}; },
                   [&](const Inputs& in) { return Inputs{rms_norm_reference(in[0] + in[1], weight, 1e-6)}; },
                   {x, added}, "norm alone");
}

TEST(Gate, AgreesWithThePlainForm) {
  torch::manual_seed(8);
  for (const int64_t width : {1, 8, 37, 256}) {
    const auto gate = torch::randn({5, width}).mul(4).requires_grad_(), up = torch::randn({5, width}).requires_grad_();
    expect_agreement([](const Inputs& in) { return Inputs{gated_silu(in[0], in[1])}; },
                     [](const Inputs& in) { return Inputs{gated_silu_reference(in[0], in[1])}; }, {gate, up},
                     cat("width ", width));
  }
  const auto far = torch::tensor({-1e4f, -90.f, 90.f, 1e4f}), one = torch::ones({4});
  EXPECT_TRUE(at::allclose(gated_silu(far, one), gated_silu_reference(far, one), 1e-6, 1e-30));
}

TEST(Mean, AgreesWithThePlainForm) {
  torch::manual_seed(10);
  auto mask = torch::rand({3, 11}).gt(0.4);
  mask[1].fill_(false);  // a row without tokens
  for (const auto& used : {mask, torch::Tensor()}) {
    const auto x = torch::randn({3, 14, 37}).requires_grad_();
    expect_agreement([&](const Inputs& in) { return Inputs{mean_tokens(in[0].narrow(1, 2, 11), used)}; },
                     [&](const Inputs& in) { return Inputs{mean_tokens_reference(in[0].narrow(1, 2, 11), used)}; }, {x},
                     used.defined() ? "some tokens" : "all tokens");
  }
}

// Three maps of one x: with an expert, plain, and with two experts of which one reads its own input.
std::vector<LinearMap> maps_of(const Inputs& in) {
  return {{in[1], in[2], {{in[3], in[4], 0.5, {}, {}}}},
          {in[5], {}, {}},
          {in[6], {}, {{in[7], in[8], 2, in[9], {}}, {in[3], in[4].narrow(0, 0, 6), 1, {}, {}}}}};
}

TEST(AdaptedLinear, AgreesWithThePlainForm) {
  torch::manual_seed(9);
  for (const int64_t tokens : {1, 700})  // one thread, several threads
    for (const bool trained : {true, false})
      for (const bool learnt_input : {true, false}) {
        const auto random = [](std::vector<int64_t> shape, bool learn) {
          return torch::randn(shape).requires_grad_(learn);
        };
        const Inputs in = {random({2, tokens, 64}, learnt_input),
                           random({96, 64}, trained),
                           random({96}, trained),
                           random({4, 64}, true),
                           random({96, 4}, true),
                           random({40, 64}, trained),
                           random({6, 64}, trained),
                           random({3, 64}, true),
                           random({6, 3}, true),
                           random({2, tokens, 64}, learnt_input)};
        const auto plain = [](const Inputs& x) {
          Inputs out;
          for (const auto& map : maps_of(x)) out.push_back(adapted_linear_reference(x[0], map));
          return out;
        };
        const auto fused = [](const Inputs& x) { return adapted_linears(x[0], maps_of(x)); };
        expect_agreement(fused, plain, in, cat(tokens, " tokens, trained ", trained, ", input ", learnt_input));
      }
}

TEST(AdaptedLinear, DropoutInsideIsDropoutBefore) {
  torch::manual_seed(12);
  const auto x = torch::randn({3, 40, 32}).requires_grad_(), w = torch::randn({24, 32}), v = torch::randn({8, 32});
  const auto a = torch::randn({4, 32}).requires_grad_(), b = torch::randn({24, 4}).requires_grad_();
  const auto c = torch::randn({2, 32}).requires_grad_(), d = torch::randn({8, 2}).requires_grad_();
  const DropoutKey first{0.3, 5, {2, 0, 7}}, second{0.1, 6};
  const auto maps = [&](const Inputs& in) {
    LowRank one{in[1], in[2], 0.5};
    LowRank two{in[3], in[4], 2};
    one.dropout = first;
    two.dropout = second;
    const auto type = in[0].scalar_type();
    return std::vector<LinearMap>{{w.to(type), {}, {one}}, {v.to(type), {}, {two}}};
  };
  const auto plain = [&](const Inputs& in) {
    Inputs out;
    for (const auto& map : maps(in)) out.push_back(adapted_linear_reference(in[0], map));
    return out;
  };
  const auto fused = [&](const Inputs& in) { return adapted_linears(in[0], maps(in)); };
  expect_agreement(fused, plain, {x, a, b, c, d}, "dropout inside");
}

TEST(AdaptedLinear, XIsKeptOnlyWhereATrainedTensorNeedsIt) {
  const auto w = torch::randn({6, 8}), a = torch::randn({2, 8}).requires_grad_(), b = torch::randn({6, 2});
  const auto uses_after = [&](const std::vector<LinearMap>& maps) {
    const auto x = torch::randn({3, 8}).requires_grad_();
    const auto in = x * 1;
    const auto y = adapted_linears(in, maps)[0];
    return in.use_count();
  };
  EXPECT_LT(uses_after({{w, {}, {}}}), uses_after({{w, {}, {{a, b, 1}}}}));
}

// A frozen half layer, and what of it the graph holds when only its result is left.
struct FrozenMlp {
  torch::Tensor scale = torch::rand({8}) + 0.5, gate = torch::randn({12, 8}), up = torch::randn({12, 8}),
                down = torch::randn({8, 12});
  torch::Tensor x = torch::randn({5, 8}).requires_grad_();
  std::vector<LowRank> at_gate = {}, at_down = {};
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made = {};  // normed, gate, up, their product

  torch::Tensor operator()() {
    const auto normed = rms_norm(x * 1, scale, 1e-5);
    const auto both = adapted_linears(normed, {{gate, {}, at_gate}, {up, {}, {}}});
    const auto product = gated_silu(both[0], both[1]);
    for (const auto& tensor : {normed, both[0], both[1], product})
      made.push_back(tensor.storage().getWeakStorageImpl());
    return adapted_linears(product, {{down, {}, at_down}})[0];
  }
  std::vector<bool> held() const {
    std::vector<bool> out;
    for (const auto& storage : made) out.push_back(!storage.expired());
    return out;
  }
};

TEST(AdaptedLinear, FrozenMapsKeepNothingForTheBackwardPass) {
  torch::manual_seed(12);
  FrozenMlp frozen;
  const auto y = frozen();
  EXPECT_EQ(frozen.held(), std::vector<bool>({false, true, true, false})) << "the gate alone needs what it read";
  const auto plain = frozen.x.detach().to(at::kDouble).requires_grad_();
  const auto normed = rms_norm_reference(plain, frozen.scale.to(at::kDouble), 1e-5);
  const auto product =
      at::silu(at::linear(normed, frozen.gate.to(at::kDouble))) * at::linear(normed, frozen.up.to(at::kDouble));
  const auto expected = gradients(at::linear(product, frozen.down.to(at::kDouble)).sum(), {plain})[0];
  expect_close(gradients(y.sum(), {frozen.x})[0], expected, 5e-5, "gradient");
  EXPECT_EQ(frozen.held(), std::vector<bool>(4, false)) << "after the backward pass";
  // With trained experts what these read is held.
  const auto expert = [](int64_t out, int64_t in) {
    return LowRank{torch::randn({2, in}).requires_grad_(), torch::randn({out, 2}).requires_grad_(), 1};
  };
  FrozenMlp trained;
  trained.at_gate = {expert(12, 8)};
  const auto with_gate = trained();
  EXPECT_EQ(trained.held(), std::vector<bool>({true, true, true, false}));
  FrozenMlp other;
  other.at_down = {expert(8, 12)};
  const auto with_down = other();
  EXPECT_EQ(other.held(), std::vector<bool>({false, true, true, true}));
}

TEST(AdaptedLinear, OneExpertOrNone) {
  torch::manual_seed(10);
  const auto x = torch::randn({3, 5, 8}).requires_grad_(), w = torch::randn({6, 8}), bias = torch::randn({6});
  const auto a = torch::randn({2, 8}).requires_grad_(), b = torch::randn({6, 2}).requires_grad_();
  const LinearMap adapted{w, bias, {{a, b, 0.25}}}, plain{w, {}, {}};
  EXPECT_TRUE(at::allclose(adapted_linears(x, {adapted})[0], adapted_linear_reference(x, adapted), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(adapted_linears(x, {plain})[0], at::linear(x, w), 1e-5, 1e-5));
  at::NoGradGuard no_grad;
  EXPECT_FALSE(adapted_linears(x, {adapted})[0].requires_grad());
}

TEST(AdaptedLinear, UnusedOutputsAndFrozenTensorsAreSkipped) {
  torch::manual_seed(11);
  const auto x = torch::randn({4, 8}), w = torch::randn({6, 8}).requires_grad_(),
             v = torch::randn({6, 8}).requires_grad_();
  const auto y = adapted_linears(x, {{w, {}, {}}, {v, {}, {}}});
  const auto grads = gradients(y[1].sum(), {w, v});
  EXPECT_FALSE(grads[0].defined());
  EXPECT_TRUE(at::allclose(grads[1], x.sum(0).expand({6, 8}), 1e-5, 1e-5));
}

}  // namespace
}  // namespace asr
