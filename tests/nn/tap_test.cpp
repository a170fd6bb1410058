// The tap within fused attention against attention and rows computed apart: values and gradients, float against the
// plain forms in double.
#include "nn/tap.h"

#include "nn/attention.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

struct TapCase {
  int64_t heads, kv_heads, queries, keys, width;
  bool causal, slice;
};

const std::vector<TapCase> kCases = {
    {4, 4, 78, 78, 32, true, true},  {4, 4, 12, 16, 8, false, true},  {4, 2, 21, 21, 12, true, true},
    {4, 4, 78, 78, 32, true, false}, {6, 2, 9, 40, 16, false, false}, {4, 1, 35, 35, 5, true, false},
};

struct Heads {
  torch::Tensor q, k, v, mask;
  std::vector<torch::Tensor> learnt() const { return {q, k, v}; }
  Heads wide() const {
    const auto as = [](const torch::Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); };
    return {as(q), as(k), as(v), mask};
  }
};

Heads random_heads(const TapCase& c) {
  torch::manual_seed(c.queries + c.width);
  const auto heads = [&](int64_t count, int64_t tokens) {
    return torch::randn({3, tokens, count, c.width}).transpose(1, 2).requires_grad_();
  };
  auto mask = torch::rand({3, c.keys}).gt(0.2);
  mask.select(1, 0).fill_(true);
  return {heads(c.heads, c.queries), heads(c.kv_heads, c.keys), heads(c.kv_heads, c.keys), mask};
}

// Slices, or rows and columns in any order, more than once, and with padding.
TapRequest request_of(const TapCase& c) {
  TapRequest request;
  const int64_t T = std::min<int64_t>(7, c.queries), V = std::min<int64_t>(16, c.keys - 1);
  if (c.slice) {
    request.first_row = c.queries - T;
    request.first_column = 1;
    request.rows = (torch::arange(T) + request.first_row).repeat({3, 1});
    request.columns = (torch::arange(V) + 1).expand({3, V});
  } else {
    request.rows = torch::randint(0, c.queries, {3, T});
    request.columns = torch::randint(0, c.keys, {3, V});
    request.rows[0][1] = request.rows[0][0];
    request.columns[1][2] = -1;
    request.columns[2][1] = request.columns[2][0];
  }
  request.rows[1][T - 1] = -1;
  request.rows[2][0] = -1;
  return request;
}

std::vector<torch::Tensor> tapped(const Heads& h, const TapCase& c, const TapRequest& request) {
  TapResult rows;
  const auto out = attend_and_tap({h.q, h.k, h.v, h.mask, c.causal}, {&request, &rows});
  rows.finish();
  return {out, rows.layers.at(0)};
}

std::vector<torch::Tensor> apart(const Heads& h, const TapCase& c, const TapRequest& request) {
  return {attend_reference(h.q, h.k, h.v, h.mask, c.causal),
          attention_rows(h.q, h.k.repeat_interleave(c.heads / c.kv_heads, 1), h.mask, c.causal, request)};
}

torch::Tensor some_loss(const std::vector<torch::Tensor>& y, bool out, bool rows) {
  torch::Tensor sum;
  for (size_t i = 0; i < 2; ++i) {
    if (!(i == 0 ? out : rows)) continue;
    auto generator = at::detail::createCPUGenerator(17 + i);
    const auto term = (y[i] * at::randn(y[i].sizes(), generator, at::CPU(at::kDouble)).to(y[i].scalar_type())).sum();
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

TEST(Tap, FusedAgreesWithAttentionAndRowsApart) {
  for (const auto& c : kCases) {
    const auto what = cat(c.heads, " heads, ", c.queries, " x ", c.keys, c.slice ? ", slice" : ", gather");
    const auto h = random_heads(c), wide = h.wide();
    const auto request = request_of(c);
    const auto found = tapped(h, c, request), expected = apart(wide, c, request);
    for (size_t i = 0; i < 2; ++i) expect_close(found[i], expected[i], 2e-5, what + cat(", output ", i));
    for (const auto& [out, rows] : {std::pair(true, true), std::pair(false, true), std::pair(true, false)}) {
      const auto a = gradients(some_loss(tapped(h, c, request), out, rows), h.learnt()),
                 b = gradients(some_loss(apart(wide, c, request), out, rows), wide.learnt());
      for (size_t i = 0; i < 3; ++i)
        if (b[i].defined())
          expect_close(a[i], b[i], 5e-5, what + cat(", gradient ", i, " of ", out ? "out " : "", rows ? "rows" : ""));
        else
          EXPECT_EQ(a[i].abs().max().item<double>(), 0) << what;  // rows do not depend on the values
    }
  }
}

TEST(Tap, AttentionIsTheSameWithAndWithout) {
  for (const auto& c : kCases) {
    const auto h = random_heads(c);
    const auto request = request_of(c);
    EXPECT_TRUE(at::equal(tapped(h, c, request)[0], attend(h.q, h.k, h.v, h.mask, c.causal)));
  }
}

TEST(Tap, LayersAreStackedOnTheirGridInEveryType) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    TapResult taps;
    for (int l = 0; l < 3; ++l) taps.layers.push_back(torch::rand({2, 4, 5, 6}).to(type).requires_grad_());
    const auto found = taps.stacked(2, 3), expected = torch::stack(taps.layers, 1).view({2, 3, 4, 5, 2, 3});
    EXPECT_TRUE(found.equal(expected));
    const auto factor = torch::rand(found.sizes()).to(type);
    const auto a = gradients((found * factor).sum(), taps.layers),
               b = gradients((expected * factor).sum(), taps.layers);
    for (size_t l = 0; l < 3; ++l) EXPECT_TRUE(a[l].equal(b[l])) << l;
  }
}

TEST(Tap, BitsDoNotDependOnThreads) {
  const auto& c = kCases[0];
  const auto h = random_heads(c);
  const auto request = request_of(c);
  const int before = runtime_info().threads;
  const auto run = [&](int threads) {
    set_compute_threads(threads);
    const auto y = tapped(h, c, request);
    auto all = gradients(some_loss(y, true, true), h.learnt());
    all.push_back(y[1]);
    return all;
  };
  const auto one = run(1), three = run(3);
  set_compute_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

TEST(Tap, PositionsOutsideAreRefused) {
  const auto& c = kCases[3];
  const auto h = random_heads(c);
  auto request = request_of(c);
  request.columns[2][3] = c.keys;
  EXPECT_CONTAINS(error_of([&] { tapped(h, c, request); }), "position 78 of 78 columns");
  request.columns[2][3] = 0;
  request.first_row = 75;
  EXPECT_CONTAINS(error_of([&] { tapped(h, c, request); }), "rows up to 82 of 78");
}

TEST(Tap, SecondDerivativesAreRefused) {
  const auto& c = kCases[1];
  const auto h = random_heads(c);
  const auto loss = some_loss(tapped(h, c, request_of(c)), false, true);
  EXPECT_CONTAINS(error_of([&] { torch::autograd::grad({loss}, {h.q}, {}, none, /*create_graph=*/true); }),
                  "second derivative");
}

}  // namespace
}  // namespace asr
