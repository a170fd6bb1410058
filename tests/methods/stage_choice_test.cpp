// A key looked at in part: as if the rest had never been measured, and how much the rest would tell.
#include "methods/terms/stage_choice.h"

#include <gtest/gtest.h>

namespace asr {
namespace {

constexpr int64_t kNumbers = 5, kLeading = 4;
constexpr uint64_t kDraw = 7;

// Of five numbers only the last tells stages apart.
torch::Tensor keys_of(int stage, int64_t rows, uint64_t seed = 0) {
  auto generator = at::detail::createCPUGenerator(seed + 100 * static_cast<uint64_t>(stage));
  auto out = at::randn({rows, kNumbers}, generator, at::CPU(at::kFloat));
  out.select(1, 0).add_(out.select(1, 1));
  out.select(1, kLeading).add_(20.0 * stage);
  return out;
}

torch::Tensor leading_of(const torch::Tensor& keys) {
  return keys.narrow(1, 0, kLeading);
}

void set_fallback(StageChoice& choice, const std::string& part) {
  OptionTable table;
  table.add("route", choice);
  table.set({"route.fallback", part, "test"});
}

TEST(StageChoice, LeadingNumbersAreReadAsIfTheyWereAll) {
  StageChoice whole, alone;
  set_fallback(whole, "0.9");
  set_fallback(alone, "0.9");
  for (int stage = 1; stage <= 3; ++stage) {
    const auto keys = keys_of(stage, 300);
    EXPECT_TRUE(whole.add(keys, {}, kDraw, kLeading));
    EXPECT_TRUE(alone.add(leading_of(keys), {}, kDraw, kLeading));
  }
  auto fresh = leading_of(keys_of(2, 40, 1)).clone();
  fresh[3].add_(50);  // so far from every stage that none reaches it
  const auto found = whole.of(fresh, {}), expected = alone.of(fresh, {});
  EXPECT_TRUE(at::allclose(found.probabilities, expected.probabilities, 1e-9, 1e-12));
  EXPECT_TRUE(found.weights.equal(expected.weights));
  EXPECT_EQ(found.weights[3].sum().item<double>(), 0);
  EXPECT_GT(found.weights.sum().item<double>(), 30);
  // The whole key says more, and may be asked in turn.
  EXPECT_GT(whole.of(keys_of(2, 40, 1), {}).probabilities.select(1, 1).min().item<double>(), 0.99);
  EXPECT_TRUE(whole.of(fresh, {}).probabilities.equal(found.probabilities));
}

TEST(StageChoice, SaysWhatFurtherNumbersWouldTell) {
  StageChoice choice;
  choice.add(keys_of(1, 400), {}, kDraw, kLeading);
  const auto next = keys_of(2, 400);
  EXPECT_NEAR(choice.named(next, {}, kDraw, kLeading).value(), 0.5, 0.25);
  EXPECT_EQ(choice.named(next, {}, kDraw, kNumbers).value(), 1);
  EXPECT_EQ(choice.stages(), 1);                                   // nothing was added
  EXPECT_FALSE(choice.named(keys_of(2, 9), {}, kDraw, kNumbers));  // a tenth of them is none
}

// Forty numbers of forty-five keys fit these keys alone: what was not held out would always be named.
TEST(StageChoice, NamesKeysThatItsMomentsHaveNotSeen) {
  const auto noise = [](uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    return at::randn({50, 40}, generator, at::CPU(at::kFloat));
  };
  StageChoice choice;
  choice.add(noise(1), {}, kDraw, 40);
  double share = 0;
  for (uint64_t seed = 2; seed < 22; ++seed) share += choice.named(noise(seed), {}, kDraw, 40).value() / 20;
  EXPECT_NEAR(share, 0.5, 0.2);
}

}  // namespace
}  // namespace asr
