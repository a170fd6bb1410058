// A method that chooses by a CLIP model of its own: its vectors decide, each sample is computed once, a run ends in the
// same bits when it is stopped, and what was trained with one encoder is never answered with another.
#include "methods/terms/external_encoder.h"

#include <set>

#include "base/interrupt.h"
#include "tests/methods/method_case.h"
#include "tests/support/clip_folder.h"
#include "train/audit.h"
#include "train/run_adapter.h"

namespace asr {
namespace {

double cosine_of(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a * b).sum() / (a.norm() * b.norm())).item<double>();
}

// Rows of a set as the encoder sees them, in double.
std::pair<torch::Tensor, torch::Tensor> clip_vectors(const ClipEncoder& encoder, const SampleSet& set,
                                                     const std::vector<int64_t>& rows) {
  std::vector<Image8> pictures;
  std::vector<std::string> questions;
  for (const int64_t row : rows) {
    pictures.push_back(set.picture(row));
    questions.push_back(set.info(row).question);
  }
  return {encoder.pictures(pictures).to(at::kDouble), encoder.texts(questions, ClipTextForm::pooled).to(at::kDouble)};
}

class ExternalEncoderTest : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  std::string clip = folder / "clip";
  void SetUp() override {
    write_small_model(folder / "model");
    ClipFolder(5).write(clip);
  }
  std::vector<Assignment> run_to(const std::string& out, const std::string& encoder) const {
    auto list = small_run(folder / "model", out, "hide-llava");
    for (const auto& [key, value] : std::map<std::string, std::string>{{"stream.tasks", "2"},
                                                                       {"stream.train", "16"},
                                                                       {"stream.val", "4"},
                                                                       {"analysis.samples", "2"},
                                                                       {"hide-llava.encoder", encoder}})
      list.push_back({key, value, "test"});
    return list;
  }
};

TEST_F(ExternalEncoderTest, StagesAreWeighedByItsVectors) {
  MethodCase fixture("hide-llava", {{"hide-llava.encoder", clip, "test"}}, folder / "model");
  const ClipEncoder encoder(clip);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> anchors;
  for (int stage = 1; stage <= 2; ++stage) {
    fixture.lay_out(stage);
    const auto set = fixture.data(static_cast<size_t>(stage) * 3);
    auto context = fixture.stage_context(stage, set);
    fixture.method->begin_stage(context);
    fixture.method->after_stage(context);
    const auto [image, text] = clip_vectors(encoder, set, range(0, set.size()));
    anchors.emplace_back(image.mean(0), text.mean(0));
  }
  const auto set = fixture.data(6);
  const auto routed = fixture.pass(set.rows(range(2, 6)), 2, true);
  const auto [image, text] = clip_vectors(encoder, set, range(2, 6));
  for (int64_t b = 0; b < 4; ++b) {
    double weight[2];
    for (size_t k = 0; k < 2; ++k)
      weight[k] = std::exp((cosine_of(image[b], anchors[k].first) + cosine_of(text[b], anchors[k].second)) / 2 / 0.1);
    for (size_t k = 0; k < 2; ++k)  // a cosine in float32 is off by some 1e-6, and the temperature makes ten of it
      EXPECT_NEAR(routed.given.at(k)[b][0].item<double>(), weight[k] / (weight[0] + weight[1]), 1e-4) << b << " " << k;
  }
}

TEST_F(ExternalEncoderTest, APictureIsReadOnceInARun) {
  const auto model = load_backbone(folder / "model");
  ExternalEncoder encoder(ClipTextForm::projected);
  OptionVisitor options("some");
  encoder.visit(options);
  options.options()[0].set(clip, "test");
  encoder.prepare(*model);
  EXPECT_EQ(encoder.folders(), std::vector<std::string>{clip});
  MethodCase fixture("hide-llava", {}, folder / "model");
  const auto set = fixture.data();
  auto batch = set.rows({3, 1, 3, 7});
  std::multiset<int64_t> read;
  batch.pictures.read = [&, from = batch.pictures.read](int64_t row) {
    read.insert(row);
    return from(row);
  };
  const auto first = encoder.of(*model, batch), again = encoder.of(*model, batch);
  EXPECT_EQ(read, (std::multiset<int64_t>{0, 1, 3}));  // the third row has the picture of the first
  EXPECT_TRUE(first.image.equal(again.image) && first.text.equal(again.text));
  EXPECT_TRUE(first.image[0].equal(first.image[2]) && !first.image[0].equal(first.image[1]));
  // The picture of one row under the question of another is no row of the set.
  const auto composed = encoder.of(*model, set.composed({{7, 3}, {kBlankPicture, 1}}));
  EXPECT_TRUE(composed.image[0].equal(first.image[3]) && composed.text[0].equal(first.text[0]));
  EXPECT_FALSE(composed.image[1].equal(first.image[1]));
  EXPECT_TRUE(composed.text[1].equal(first.text[1]));
  batch.pictures = {};
  EXPECT_CONTAINS(error_of([&] { encoder.of(*model, batch); }), "cannot be read again");
}

TEST_F(ExternalEncoderTest, WithoutAFolderTheBackboneServes) {
  MethodCase fixture("hide-llava", {}, folder / "model");
  const auto batch = fixture.data().rows({0, 4});
  ExternalEncoder none(ClipTextForm::pooled);
  none.prepare(*fixture.model);
  const auto found = none.of(*fixture.model, batch), expected = frozen_embeddings(*fixture.model, batch);
  EXPECT_TRUE(found.image.equal(expected.image) && found.text.equal(expected.text));
  EXPECT_TRUE(none.folders().empty());
  MethodCosts costs;
  const Options options;
  none.add_costs(CostContext(options), costs);
  EXPECT_EQ(costs.device_bytes + costs.host_bytes, 0);
}

TEST_F(ExternalEncoderTest, CostsAreItsWeightsAndItsVectors) {
  const auto costs_with = [&](const std::string& encoder) {
    const Options options;
    CostContext sizes(options);
    sizes.task_samples = {30, 20};
    return make_methods("hide-llava", {{"hide-llava.encoder", encoder, "test"}})[0]->costs(sizes);
  };
  double numbers = 0;
  for (const auto& [name, tensor] : ClipFolder(5).tensors) numbers += static_cast<double>(tensor.numel());
  EXPECT_EQ(costs_with(clip).device_bytes - costs_with("").device_bytes, 4 * numbers);
  EXPECT_EQ(costs_with(clip).host_bytes, 50 * 4 * (10 + 12));
  EXPECT_GT(costs_with(folder / "nowhere").device_bytes, 1.7e9);  // CLIP ViT-L/14, where it is not there yet
}

TEST_F(ExternalEncoderTest, ARunStoppedAndResumedEndsInTheSameBits) {
  run_small(run_to(folder / "straight", clip));
  bool ended = false;
  for (int attempt = 0; attempt < 8 && !ended; ++attempt) {
    plan_stop(SIGINT, StopPlace::step);
    ended = message_of([&] { run_small(run_to(folder / "stopped", clip), attempt > 0); }).empty();
    forget_stop();
  }
  EXPECT_TRUE(ended);
  expect_same_files(folder / "straight/hide-llava", folder / "stopped/hide-llava");
  const auto audit = audit_run(folder / "straight/hide-llava");
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  EXPECT_TRUE(audit.replay_free);
}

TEST_F(ExternalEncoderTest, AnotherEncoderIsRefused) {
  run_small(run_to(folder / "out", clip));
  const auto run = folder / "out/hide-llava";
  const auto fingerprint = nlohmann::json::parse(read_text(run + "/fingerprint.json"));
  EXPECT_EQ(fingerprint["content"]["encoders"].get<std::string>().size(), 64u);
  const auto model = load_backbone(folder / "model");
  const auto answer = [&] { return message_of([&] { SlotAdapter slots(*model, run + "/adapter"); }); };
  EXPECT_EQ(answer(), "");
  ClipFolder(6).write(clip);
  EXPECT_CONTAINS(answer(), "is not the encoder that this was trained with");
  EXPECT_CONTAINS(message_of([&] { run_small(run_to(folder / "out", clip), true); }), "with another encoder");
  std::filesystem::remove_all(clip);
  EXPECT_CONTAINS(answer(), clip);
  EXPECT_CONTAINS(message_of([&] { run_small(run_to(folder / "new", clip)); }), clip);
}

// What is chosen by pairs of picture and question needs pictures.
TEST(PairRouters, RefuseAStreamWithoutPictures) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "in");
  auto tasks = nlohmann::json::array();
  for (const std::string task : {"a", "b"}) {
    std::string rows;
    for (int i = 0; i < 8; ++i)
      rows += nlohmann::json{{"id", i}, {"question", "is it?"}, {"answer", i % 2 ? "yes" : "no"}}.dump() + "\n";
    write_text(folder / ("in/" + task + ".jsonl"), rows);
    tasks.push_back({{"name", task}, {"files", {{"train", task + ".jsonl"}, {"val", task + ".jsonl"}}}});
  }
  write_text(folder / "in/stream.json", nlohmann::json{{"text_only", true}, {"tasks", tasks}}.dump());
  for (const auto& [method, why] :
       {std::pair<std::string, std::string>{"branchlora", "branchlora chooses by pairs of picture and question"},
        {"hide-llava", "hide-llava chooses by pairs of picture and question"},
        {"d-mole", "d-mole recognises tasks by picture and question"}}) {
    auto list = small_run(std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models/llava", folder / method, method);
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"stream.name", "manifest"},
                                                                                     {"stream.path", folder / "in"},
                                                                                     {"stream.tasks", "0"},
                                                                                     {"attention.layers", "1"},
                                                                                     {"attention.grid", "6"}})
      list.push_back({key, value, "test"});
    const auto message = message_of([&] { run_small(list); });
    EXPECT_CONTAINS(message, why);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace asr
