// A decoder computes the same on every device and in every precision: fused kernels, the library's and plain forms meet
// here. On a machine without a GPU the CPU's two ways are compared.
#include "nn/decoder.h"

#include <cmath>

#include "tensor/torch_compat.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

Linear random_linear(int64_t out, int64_t in) {
  Linear l;
  l.weight = torch::randn({out, in}) / std::sqrt(static_cast<double>(in));
  return l;
}

Decoder small_decoder() {
  torch::manual_seed(6);
  Decoder d;
  d.config.layers = 3;
  d.config.width = 32;
  d.config.heads = 4;
  d.config.kv_heads = 2;
  d.config.mlp = 48;
  for (int i = 0; i < d.config.layers; ++i) {
    DecoderLayer l;
    l.attention_norm.weight = torch::rand({32}) + 0.5;
    l.mlp_norm.weight = torch::rand({32}) + 0.5;
    l.q = random_linear(32, 32);
    l.k = random_linear(16, 32);
    l.v = random_linear(16, 32);
    l.o = random_linear(32, 32);
    l.gate = random_linear(48, 32);
    l.up = random_linear(48, 32);
    l.down = random_linear(32, 48);
    d.layers.push_back(std::move(l));
  }
  d.final_norm.weight = torch::ones({32});
  return d;
}

Decoder moved(Decoder d, const at::TensorOptions& to) {
  const auto move = [&](torch::Tensor& t) { t = t.to(to); };
  for (auto& l : d.layers) {
    move(l.attention_norm.weight);
    move(l.mlp_norm.weight);
    for (auto* one : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) move(one->weight);
  }
  move(d.final_norm.weight);
  return d;
}

// float32 on the CPU has kernels of its own, double takes the plain forms, a GPU the library's.
std::vector<at::TensorOptions> other_places() {
  std::vector<at::TensorOptions> out = {at::TensorOptions().dtype(at::kDouble)};
  for (const auto& device : devices())
    if (device.is_cuda())
      for (const auto type : {at::kFloat, at::kDouble}) out.push_back(at::TensorOptions().device(device).dtype(type));
  return out;
}

std::string name_of(const at::TensorOptions& place) {
  return cat(place.device().str(), " ", c10::toString(c10::typeMetaToScalarType(place.dtype())));
}

torch::Tensor padded_mask(int64_t left, int64_t right) {  // [2, 11]; the second sample is shorter
  auto mask = torch::ones({2, 11}, at::kBool);
  mask[1].narrow(0, 0, left).fill_(false);
  mask[1].narrow(0, 11 - right, right).fill_(false);
  return mask;
}

torch::Tensor positions_in(const torch::Tensor& mask) {
  return (mask.to(at::kLong).cumsum(1) - 1).clamp_min(0);
}

const std::vector<std::pair<int64_t, int64_t>> kPadding = {{0, 0}, {0, 4}, {4, 0}};

// The decoder drops the mask by itself where it may; real tokens must not notice.
TEST(Decoder, ComputesTheSameInEveryPlaceWithAndWithoutACache) {
  const auto decoder = small_decoder();
  const auto x = torch::randn({2, 11, 32}), next = torch::randn({2, 1, 32});
  for (const auto& [left, right] : kPadding) {
    const auto mask = padded_mask(left, right), positions = positions_in(mask);
    const auto run = [&](const at::TensorOptions& place) {
      at::NoGradGuard no_grad;
      const auto device = place.device();
      const auto here = moved(decoder, place);
      KvCache cache;
      DecoderInput input{.positions = positions.to(device), .mask = mask.to(device)};
      const auto whole = here(x.to(place), input, Pass{});
      input.cache = &cache;
      here(x.to(place), input, Pass{});
      const DecoderInput one_more{.positions = positions.narrow(1, 10, 1).to(device) + 1,
                                  .mask = torch::ones({2, 1}, at::kBool).to(device),
                                  .cache = &cache};
      const auto after = here(next.to(place), one_more, Pass{});
      return at::cat({whole.cpu().index({mask}), after.cpu().flatten(0, 1)});
    };
    const auto expected = run(at::TensorOptions());
    for (const auto& place : other_places())
      expect_close(run(place), expected, 1e-4, cat(name_of(place), ", padding ", left, " and ", right));
  }
}

// What is read of the last states does not depend on whether the others were computed; no gradient is lost either.
// Where somebody looks at all states, all are computed.
TEST(Decoder, GivesThePlacesThatAreReadAlone) {
  auto decoder = small_decoder();
  auto& first = decoder.layers[0].v.slots.emplace_back();
  first.experts.push_back({torch::randn({2, 32}).requires_grad_(), torch::randn({16, 2}).requires_grad_(), 1});
  auto& last = decoder.layers[2].v.slots.emplace_back();
  last.experts.push_back({torch::randn({2, 32}).requires_grad_(), torch::randn({16, 2}).requires_grad_(), 1});
  std::vector<torch::Tensor> learnt;
  for (const auto* slot : {&first, &last}) {
    learnt.push_back(slot->experts[0].a);
    learnt.push_back(slot->experts[0].b);
  }
  const auto x = torch::randn({2, 11, 32}).requires_grad_(), factor = torch::randn({3, 32});
  learnt.push_back(x);
  const auto mask = padded_mask(0, 4), positions = positions_in(mask), read = torch::tensor({4, 9, 14}, at::kLong);
  DecoderInput input{.positions = positions, .mask = mask};
  const auto whole = decoder(x, input, Pass{}).reshape({-1, 32}).index_select(0, read);
  const auto expected = gradients((whole * factor).sum(), learnt);
  for (const bool looked_at : {false, true}) {
    DecoderInside inside;
    inside.layer = looked_at ? 3 : 0;
    input.read = read;
    input.inside = &inside;
    const auto found = decoder(x, input, Pass{});
    expect_close(found, whole, 1e-5, "states");
    const auto grads = gradients((found * factor).sum(), learnt);
    for (size_t i = 0; i < grads.size(); ++i) expect_close(grads[i], expected[i], 1e-5, cat("gradient ", i));
    if (looked_at) {
      EXPECT_EQ(inside.state.sizes(), x.sizes());
    }
  }
}

// Experts behind o read all places: their masks of dropout are drawn by place.
TEST(Decoder, ComputesAllPlacesWhereExpertsReadThem) {
  auto decoder = small_decoder();
  decoder.layers[2].up.slots.emplace_back().experts.push_back({torch::randn({2, 32}), torch::randn({48, 2}), 1});
  const auto x = torch::randn({2, 11, 32}), read = torch::tensor({4, 9}, at::kLong);
  const auto mask = padded_mask(0, 4), positions = positions_in(mask);
  const auto run = [&](bool all) {
    AdapterDropout dropout{0.5, 3};
    Pass pass;
    pass.dropout = &dropout;
    DecoderInput input{.positions = positions, .mask = mask};
    if (!all) input.read = read;
    const auto out = decoder(x, input, pass);
    return all ? out.reshape({-1, 32}).index_select(0, read) : out;
  };
  EXPECT_TRUE(run(false).equal(run(true)));
}

// A prompt of unequal rows, then tokens one at a time: what a whole pass gives, whether keys are written into room that
// was there or copied. Rows leave, and go on several times from one prompt.
TEST(Decoder, ACacheWithRoomHoldsWhatAGrowingOneHolds) {
  at::NoGradGuard no_grad;
  const auto decoder = small_decoder();
  const auto x = torch::randn({2, 14, 32});
  auto mask = torch::ones({2, 14}, at::kBool);
  mask[1].narrow(0, 0, 4).fill_(false);
  const auto positions = positions_in(mask);
  const auto wide = at::TensorOptions().dtype(at::kDouble);
  const auto expected = moved(decoder, wide)(x.to(wide), {.positions = positions, .mask = mask}, Pass{}).to(at::kFloat);
  auto places = other_places();
  places.emplace_back();
  for (const auto& place : places)
    for (const int64_t room : {0, 14, 20}) {
      const auto device = place.device();
      const auto here = moved(decoder, place);
      const auto what = cat(name_of(place), ", room ", room);
      const auto part = [&](const torch::Tensor& t, const torch::Tensor& rows, int64_t begin, int64_t count) {
        return t.index_select(0, rows).narrow(1, begin, count).to(device);
      };
      const auto forward = [&](KvCache& cache, const torch::Tensor& rows, int64_t begin, int64_t count) {
        const auto real = begin < 4 ? part(mask, rows, begin, count) : torch::Tensor();
        const DecoderInput input{.positions = part(positions, rows, begin, count), .mask = real, .cache = &cache};
        return here(part(x, rows, begin, count).to(place), input, Pass{}).cpu().to(at::kFloat);
      };
      const auto both = torch::tensor({0, 1}), second = torch::tensor({1}), three = torch::tensor({1, 0, 1});
      KvCache cache;
      cache.room = room;
      const auto prompt = forward(cache, both, 0, 10);
      expect_close(prompt.index({mask.narrow(1, 0, 10)}),
                   part(expected, both, 0, 10).cpu().index({mask.narrow(1, 0, 10)}), 1e-4, what);
      if (room > 0) {  // several at once from what is shared, more than once
        auto shared = cache.spread(three.to(device), 14);
        expect_close(forward(shared, three, 10, 3), part(expected, three, 10, 3).cpu(), 1e-4, what + ", spread");
        expect_close(forward(shared, three, 13, 1), part(expected, three, 13, 1).cpu(), 1e-4, what + ", spread");
        EXPECT_EQ(error_of([&] { forward(shared, three, 13, 1); }),
                  "a cache with room for 14 positions cannot hold 15");
      }
      expect_close(forward(cache, both, 10, 1), part(expected, both, 10, 1).cpu(), 1e-4, what);
      cache.keep_rows(second.to(device));
      for (const int64_t at : {11, 12, 13})
        expect_close(forward(cache, second, at, 1), part(expected, second, at, 1).cpu(), 1e-4,
                     cat(what, ", token ", at));
    }
}

TEST(Decoder, TapsTheSameInEveryPlaceAlsoWhenLayersRunAgain) {
  const auto decoder = small_decoder();
  const auto x = torch::randn({2, 11, 32}), factor = torch::randn({2, 2, 4, 3, 5});
  TapRequest request;
  request.layers = {0, 2};
  request.rows = torch::tensor({6, 5, 6, 6, -1, 4}).view({2, 3});
  request.columns = torch::tensor({0, 2, 1, 4, 3, 4, 5, 5, -1, 6}).view({2, 5});
  for (const auto& [left, right] : kPadding) {
    const auto mask = padded_mask(left, right), positions = positions_in(mask);
    const auto run = [&](const at::TensorOptions& place, bool again) {
      const auto device = place.device();
      auto asked = request;
      asked.rows = asked.rows.to(device);
      asked.columns = asked.columns.to(device);
      const auto input = x.to(place).detach().requires_grad_();
      const auto here = moved(decoder, place);  // needed again by layers that run again
      TapResult taps;
      DecoderInside inside;
      inside.recompute = again;
      const DecoderInput given{
          .positions = positions.to(device), .mask = mask.to(device), .tap = {&asked, &taps}, .inside = &inside};
      const auto out = here(input, given, Pass{});
      const auto rows = taps.stacked();
      EXPECT_EQ(taps.layers.size(), 2u);
      EXPECT_TRUE(taps.layers.at(1).equal(rows.select(1, 1)));
      const auto loss = (rows * factor.to(place)).sum() + out.square().mean();
      return std::vector<torch::Tensor>{rows.detach(), gradients(loss, {input})[0]};
    };
    const auto expected = run(at::TensorOptions(), false);
    EXPECT_EQ(expected[0][1].select(2, 1).abs().sum().item<double>(), 0);  // a row that nobody asked for
    for (const bool again : {false, true}) {
      auto places = other_places();
      if (again) places.push_back(at::TensorOptions());
      for (const auto& place : places) {
        const auto found = run(place, again);
        const auto what = cat(name_of(place), again ? ", again" : "", ", padding ", left, " and ", right);
        expect_close(found[0], expected[0], 1e-4, what);
        expect_close(found[1], expected[1], 2e-4, what + ", gradient");
      }
    }
  }
}

}  // namespace
}  // namespace asr
