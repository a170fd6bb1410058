// Gates with weights of each sample's own, on every linear of a model: a sample among others is what it is alone, also
// where its patches and tiles lie below those of others, and while answers of unequal length are generated.
#include <gtest/gtest.h>

#include <filesystem>

#include "backbones/tiny.h"
#include "tests/backbones/reference_checks.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

// Two experts everywhere. Those of the language model may be weighed by a router that reads the prompt.
void add_gated_slot(Backbone& model, GateKind in_text) {
  torch::manual_seed(12);
  const auto generator = at::detail::createCPUGenerator(3);
  for (const auto& site : model.all_sites()) {
    SlotAtSite slot;
    for (int i = 0; i < 2; ++i) {
      slot.experts.push_back(make_expert(*site.linear, 2, 4, generator));
      slot.experts.back().b.detach().normal_(0, 0.05);
    }
    const bool text = site.part <= SitePart::down && site.name.rfind("qformer", 0) != 0;
    slot.training.kind = text ? in_text : GateKind::given;
    if (slot.training.kind == GateKind::router) {
      slot.training.router = torch::randn({2, site.linear->weight.size(1)});
      slot.training.reads = RouterReads::mean;
    }
    site.linear->slots.push_back(slot);
  }
}

torch::Tensor weights_of_two() {
  return torch::tensor({{1.0, 0.2}, {-0.5, 0.8}});
}

// `both` holds two samples, `alone` each of them.
void check_samples(Backbone& model, const Batch& both, const std::vector<Batch>& alone, double tolerance) {
  at::NoGradGuard no_grad;
  Want want;
  want.all_logits = true;
  want.loss = false;
  for (const auto kind : {GateKind::given, GateKind::router}) {
    for (const auto& site : model.all_sites()) site.linear->slots.clear();
    add_gated_slot(model, kind);
    const GivenWeights given = {{0, weights_of_two()}};
    Pass pass;
    pass.given = &given;
    const auto logits = model.forward(both, pass, want).all_logits;
    const auto answers = model.generate(both, pass, 8);
    for (size_t i = 0; i < 2; ++i) {
      const auto b = static_cast<int64_t>(i);
      const GivenWeights own = {{0, weights_of_two().narrow(0, b, 1)}},
                         other = {{0, weights_of_two().narrow(0, 1 - b, 1)}};
      Pass one = pass, wrong = pass;
      one.given = &own;
      wrong.given = &other;
      const auto& batch = alone[i];
      const auto expected = model.forward(batch, one, want).all_logits.index({batch.mask});
      const auto found = logits[b].index({both.mask[b]});
      expect_close(found, expected, tolerance, cat("sample ", i));
      const auto missed = model.forward(batch, wrong, want).all_logits.index({batch.mask});
      EXPECT_GT(relative_error(missed, expected), 100 * tolerance);
      EXPECT_EQ(answers[i], model.generate(batch, one, 8)[0]) << "sample " << i;
    }
  }
}

TEST(SampleGates, BuiltInModels) {
  const auto tokenizer = WordTokenizer::from_texts({"what color is the circle?", "red green blue"});
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    auto config = tiny_config(kind, "S");
    config.vision.image = 32;
    config.text.layers = 2;
    const auto model = TinyBackbone::random(config, tokenizer, 3);
    torch::manual_seed(2);
    Batch both;
    both.pixels = torch::rand({2, 3, 32, 32});
    both.ids = torch::tensor({{5, 6, 7, 2}, {8, 9, 2, 0}});
    both.mask = both.ids.ne(0);
    both.labels = torch::full_like(both.ids, -1);
    both.question = both.mask;
    std::vector<Batch> alone(2, both);
    for (int64_t b = 0; b < 2; ++b)
      for (auto field : {&Batch::pixels, &Batch::ids, &Batch::mask, &Batch::labels, &Batch::question}) {
        auto& tensor = alone[static_cast<size_t>(b)].*field;
        tensor = tensor.narrow(0, b, 1);
        if (tensor.dim() == 2) tensor = tensor.narrow(1, 0, 4 - b);
      }
    check_samples(*model, both, alone, 1e-4);
  }
}

class SampleGatesModels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, SampleGatesModels, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(SampleGatesModels, PretrainedModels) {
  auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  if (!golden.io.find("in.pixel_values")) GTEST_SKIP() << "a model of text alone";
  if (!std::filesystem::exists(golden.folder + "/tokenizer.json")) write_small_tokenizer(golden.folder, golden.config);
  // Answers end, at different places.
  auto ends = nlohmann::json::array();
  for (int64_t id = 0; id < load_pretrained(golden.folder)->language().vocabulary(); id += 4) ends.push_back(id);
  write_text(golden.folder + "/generation_config.json", nlohmann::json({{"eos_token_id", ends}}).dump());
  const auto model = open_model(golden.folder);
  const bool several = model->folder().type == "llava";
  std::vector<Image8> pictures;
  for (const auto& [height, width] : {std::pair<int, int>{40, 60}, {90, 30}, {30, 30}}) {
    pictures.push_back({height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))});
    for (size_t i = 0; i < pictures.back().rgb.size(); ++i)
      pictures.back().rgb[i] = static_cast<uint8_t>(i * (7919 + pictures.size()) >> 3);
  }
  std::vector<PackItem> items(2);
  for (size_t i = 0; i < 2; ++i) {
    items[i].id = cat("item ", i);
    items[i].images = {&pictures[i]};
    items[i].question = i ? "what is the color?" : "where?";
  }
  if (several) items[0].images.push_back(&pictures[2]);
  check_samples(*model, model->pack(items), {model->pack({items[0]}), model->pack({items[1]})}, 1e-6);
}

}  // namespace
}  // namespace asr
