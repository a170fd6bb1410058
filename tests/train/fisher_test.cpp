// EWC's Fisher is a statistic of the stage's data: how a training step is split into passes does not change it.
#include "data/drawn_rows.h"
#include "data/encoded_samples.h"
#include "tests/support/tensors.h"
#include "tests/train/run_support.h"
#include "train/kept_state.h"
#include "train/objectives.h"

namespace asr {
namespace {

struct FisherCase {
  std::unique_ptr<Backbone> model;
  AdapterBank bank;
  NamedParameters parameters;
  const std::unique_ptr<Objective> objective = language_objective();
  std::shared_ptr<SampleSet> data;
  const Team alone;

  explicit FisherCase(const std::string& path) : model(load_backbone(path)), bank(model->all_sites()) {
    SiteLayout each;
    each.rank = 2;
    bank.add(alike(kTrainedSlot, model->sites(), each), 3);
    parameters = bank.trained();
    auto generator = at::detail::createCPUGenerator(5);
    at::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters)  // B starts at zero, and A without a gradient
      tensor.copy_(at::randn(tensor.sizes(), generator, at::CPU(at::kFloat)) * 0.1);
    StreamOptions options;
    options.train = 20;
    options.val = 4;
    options.image_size = 32;
    const auto stream = make_stream(options);
    const auto sample = [&](int64_t i) {
      auto s = stream->sample(0, DataSplit::train, i);
      if (i % 3 == 0) s.answer += " " + s.answer + " " + s.answer;  // passes hold different numbers of answer tokens
      return s;
    };
    data = std::make_shared<EncodedSamples>(encode_samples(20, sample, *model, nullptr));
  }

  torch::Tensor fisher(int64_t batch, const std::string& block, const std::string& samples = "0", uint64_t seed = 0) {
    auto methods = make_methods("ewc", {{"ewc.fisher_batch", block, "test"}, {"ewc.samples", samples, "test"}});
    const auto answering = [&](const SampleBatch&) {
      RoutedPass out;
      out.how.slots = bank.answering();
      return out;
    };
    StageContext stage{1, seed, batch, *model, bank, *objective, parameters, *data, {}, answering, alone};
    methods[0]->after_stage(stage);
    for (const auto& item : held_items("ewc", methods))
      if (item.name == "method.ewc.fisher") return item.tensor;
    return {};
  }
};

double apart(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

TEST(Fisher, DoesNotDependOnHowAStepIsSplit) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  FisherCase fixture(folder / "model");
  const auto whole = fixture.fisher(8, "8");
  ASSERT_TRUE(whole.defined());
  EXPECT_GT(whole.max().item<double>(), 0);
  for (const int64_t batch : {1, 3, 5, 64}) EXPECT_LT(apart(fixture.fisher(batch, "8"), whole), 1e-4) << batch;
  // What does change it is the block; one sample is the Fisher proper, which is larger.
  const auto proper = fixture.fisher(8, "1");
  EXPECT_GT(apart(proper, whole), 0.1);
  EXPECT_GT(proper.sum().item<double>(), whole.sum().item<double>());
}

TEST(Fisher, IsMeasuredOnSamplesDrawnAtRandom) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  FisherCase fixture(folder / "model");
  const auto drawn = fixture.fisher(8, "4", "8");
  EXPECT_TRUE(drawn.equal(fixture.fisher(8, "4", "8")));
  EXPECT_FALSE(drawn.equal(fixture.fisher(8, "4", "8", 1))) << "the seed draws";
  const auto whole = fixture.data;
  fixture.data = whole->subset(range(0, 8));
  EXPECT_FALSE(drawn.equal(fixture.fisher(8, "4"))) << "not the first ones";
  fixture.data = whole->subset(drawn_rows(20, 8, draw_key(DrawPurpose::fisher, 0, 1)));
  EXPECT_LT(apart(drawn, fixture.fisher(8, "4")), 1e-5);
}

}  // namespace
}  // namespace asr
