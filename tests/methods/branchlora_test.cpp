// BranchLoRA: one A for all branches, the routers of a task, freezing by router weight, keys and what they choose.
#include <cmath>
#include <set>

#include "methods/terms/external_encoder.h"
#include "tests/methods/branchlora_case.h"
#include "tests/methods/every_kind.h"
#include "tests/methods/held_state.h"

namespace asr {
namespace {

TEST(BranchLora, AddsTheBestBranchesOfTheTasksRouter) {
  BranchCase test(MethodOptions{{"branches", "4"}, {"top", "2"}});
  test->lay_out(1);
  test->lay_out(2);
  test->randomise(0.3);
  at::NoGradGuard no_grad;
  const auto sites = test->model->sites();
  const auto& site = *std::find_if(sites.begin(), sites.end(), [](const auto& s) { return s.part == SitePart::v; });
  const auto& slot = test->bank->at(kBranchSlot, site.name);
  ASSERT_EQ(slot.experts.size(), 4u);
  EXPECT_EQ(slot.experts[0].a.size(0), 1);  // lora_rank 4 over four branches
  for (const auto& expert : slot.experts) EXPECT_TRUE(expert.a.is_same(slot.experts[0].a));
  const auto x = torch::randn({3, 5, site.linear->weight.size(1)});
  Pass training;
  training.slots = test->bank->training();
  Pass answering;
  answering.answering = true;
  answering.slots = test->bank->answering();
  // The routers of the first task for the first and the last sample, those of the second for the other.
  const GivenWeights given = {{0, torch::tensor({{1.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}})}};
  answering.given = &given;
  const auto trained = (*site.linear)(x, training), answered = (*site.linear)(x, answering);
  ASSERT_EQ(slot.answering.earlier_routers.size(), 1u);
  for (int64_t b = 0; b < 3; ++b) {
    const auto newest = top_weights(slot.training.router, x[b][0], 2);
    const auto& router = b == 1 ? slot.answering.router : slot.answering.earlier_routers[0];
    const auto chosen = top_weights(router, x[b][0], 2);
    for (int64_t t = 0; t < 5; ++t) {
      EXPECT_TRUE(at::allclose(trained[b][t].to(at::kDouble), branch_output(site, slot, x[b][t], newest), 1e-4, 1e-4));
      EXPECT_TRUE(at::allclose(answered[b][t].to(at::kDouble), branch_output(site, slot, x[b][t], chosen), 1e-4, 1e-4));
    }
  }
}

// METHODS: with N branches of rank r / N a linear has A and N B of that rank, and N x d_in a router.
TEST(BranchLora, CountsAsTheFormulaDoes) {
  BranchCase test(MethodOptions{{"branches", "4"}, {"sites", "all"}});
  test->lay_out(1);
  test->lay_out(2);
  int64_t expected = 0;
  for (const auto& site : test->model->all_sites()) {
    if (site.part == SitePart::vision) continue;
    const int64_t in = site.linear->weight.size(1), out = site.linear->weight.size(0);
    expected += in + 4 * out + 2 * 4 * in;
  }
  int64_t numbers = 0;
  for (const auto& [name, tensor] : test->bank->tensors()) numbers += tensor.numel();
  EXPECT_EQ(numbers, expected);
}

TEST(BranchLora, FreezesTheBranchesWithTheLargestRouterWeight) {
  for (const std::string reads : {"first", "token", "mean"}) {
    BranchCase test(MethodOptions{{"branches", "4"}, {"top", "2"}, {"reads", reads}});
    const auto set = test->data();
    test.pass_stage(1, set);
    const auto seen = vectors_read(test, set);
    at::NoGradGuard no_grad;
    for (const auto& site : test->model->sites()) {
      const auto& router = test->bank->at(kBranchSlot, site.name).training.router;
      const auto sums = router_sums(site, router, reads, seen.read.at(site.linear));
      auto sorted = sums;
      std::sort(sorted.rbegin(), sorted.rend());
      const auto frozen = frozen_branches(*test->bank, site.name);
      for (size_t e = 0; e < 4; ++e)
        EXPECT_EQ(frozen.count(e) > 0, sums[e] >= sorted[1]) << reads << " " << site.name << " " << e;
    }
  }
}

// The second stage's router gives most to a branch that the first one froze, and then to a free one: both take part,
// and both count as the two that are frozen.
TEST(BranchLora, ALaterRouterMayChooseFrozenBranches) {
  BranchCase test(MethodOptions{{"branches", "4"}, {"top", "2"}});
  const auto set = test->data();
  test.pass_stage(1, set);
  test.begin(2, set);
  test->randomise(0.3);
  at::NoGradGuard no_grad;
  const auto fill_branches = [&](double spread) {
    for (const auto& [name, tensor] : test->bank->tensors())
      if (name.find(".lora_B.") != std::string::npos) tensor.copy_(torch::randn(tensor.sizes()) * spread);
  };
  fill_branches(0);  // so that what a linear reads depends on no router before it
  const auto seen = vectors_read(test, set);
  const auto sites = test->model->sites();
  std::map<std::string, size_t> frozen_before;  // the one that is chosen, by site
  std::map<std::string, std::set<size_t>> expected;
  for (const auto& site : sites) {
    auto& frozen = expected[site.name];
    frozen = frozen_branches(*test->bank, site.name);
    ASSERT_EQ(frozen.size(), 2u);
    std::vector<size_t> places(frozen.begin(), frozen.end());  // where the branches go, by what they are given
    for (size_t e = 0; e < 4; ++e)
      if (frozen.count(e) == 0) places.push_back(e);
    std::swap(places[1], places[3]);  // frozen, free, free, frozen
    const auto& router = test->bank->at(kBranchSlot, site.name).training.router;
    const auto sums = router_sums(site, router, "first", seen.read.at(site.linear));
    std::vector<size_t> order = {0, 1, 2, 3};
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sums[a] > sums[b]; });
    const auto rows = router.detach().clone();
    for (size_t i = 0; i < 4; ++i) router[static_cast<int64_t>(places[i])].copy_(rows[static_cast<int64_t>(order[i])]);
    frozen_before[site.name] = places[0];
    frozen.insert(places[1]);
  }
  auto context = test->stage_context(2, set);
  test->method->after_stage(context);
  fill_branches(0.3);
  Pass training;
  training.slots = test->bank->training();
  int taking_part = 0;
  for (const auto& site : sites) {
    EXPECT_EQ(frozen_branches(*test->bank, site.name), expected.at(site.name)) << site.name;
    const auto& slot = test->bank->at(kBranchSlot, site.name);
    const auto& x = seen.read.at(site.linear).front();
    const auto weights = top_weights(slot.training.router, x[0][0], 2);
    taking_part += weights[frozen_before.at(site.name)] > 0 ? 1 : 0;
    EXPECT_TRUE(at::allclose((*site.linear)(x, training)[0][0].to(at::kDouble),
                             branch_output(site, slot, x[0][0], weights), 1e-4, 1e-4))
        << site.name;
  }
  EXPECT_GT(taking_part, 0);
}

TEST(BranchLora, GoesOnWithRouterAndSharedAWhenNoBranchIsFree) {
  for (const bool freeze_a : {false, true}) {
    BranchCase test(MethodOptions{{"branches", "2"}, {"top", "2"}, {"freeze_a_after_stage1", freeze_a ? "yes" : "no"}});
    const auto set = test->data();
    test.pass_stage(1, set);
    for (const auto& [name, tensor] : test->bank->trained()) EXPECT_EQ(name.find("lora_B"), std::string::npos) << name;
    test.begin(2, set);
    ASSERT_FALSE(test->bank->trained().empty());
    for (const auto& [name, tensor] : test->bank->trained()) {
      const bool router = name.find(".router.1.weight") != std::string::npos;
      EXPECT_TRUE(router || (!freeze_a && name.find(".lora_A.weight") != std::string::npos)) << name;
    }
    const auto added = test->losses(set.rows(range(0, 4)));
    EXPECT_EQ(added.log.at("free_branch_count").item<double>(), 0);
  }
}

double key_cosine(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a * b).sum() / (a.norm() * b.norm())).item<double>();
}

TEST(BranchLora, AlignsTheKeysOfTheStageAlone) {
  BranchCase test(MethodOptions{{"branches", "4"}, {"align", "0.5"}});
  auto set = test->data(0);
  test.pass_stage(1, set);
  test.begin(2, set);
  const auto group = test->method->parameters().at(0);
  ASSERT_EQ(group.parameters.size(), 2u);
  EXPECT_EQ(group.weight_decay, 0);
  const auto image_key = group.parameters[0].second, text_key = group.parameters[1].second;
  EXPECT_NEAR(image_key.norm().item<double>(), 1, 1e-5);
  for (auto key : {image_key, text_key}) key.requires_grad_(true);
  auto batch = set.rows(range(0, 6));
  for (auto& info : batch.info) info.stage = 2;
  batch.info[4].stage = 1;  // replayed: not the stage's own
  Want want;
  want.loss = false;
  want.pooled = true;
  const auto base = test->model->forward(batch.input, Pass{0, nullptr}, want);
  double expected = 0;
  for (int64_t b = 0; b < 6; ++b) {
    if (b == 4) continue;
    const auto image = base.image[b].to(at::kDouble), text = base.text[b].to(at::kDouble);
    expected += (2 - key_cosine(image, image_key.detach().to(at::kDouble)) -
                 key_cosine(text, text_key.detach().to(at::kDouble))) /
                6;
  }
  const auto added = test->losses(batch);
  EXPECT_NEAR(added.total().item<double>(), 0.5 * expected, 1e-5);
  added.total().backward();
  EXPECT_GT(image_key.grad().abs().max().item<double>(), 0);
  EXPECT_GT(text_key.grad().abs().max().item<double>(), 0);
}

// What sets one row apart from the others: orthogonal to their mean, so that no other row is nearer to it.
torch::Tensor apart_from_mean(const torch::Tensor& rows, int64_t row) {
  const auto mean = rows.mean(0);
  const auto far = rows[row] - mean;
  return far - mean * (far.dot(mean) / mean.dot(mean));
}

TEST(BranchLora, AnswersWithTheTaskWhoseKeysAreNearest) {
  BranchCase test(MethodOptions{{"branches", "4"}});
  for (int stage = 1; stage <= 3; ++stage) test.pass_stage(stage, test->data(static_cast<size_t>(stage)));
  const auto set = test->data(2);
  const auto batch = set.rows(range(0, 8));
  Want want;
  want.loss = false;
  want.pooled = true;
  at::NoGradGuard no_grad;
  const auto base = test->model->forward(batch.input, Pass{0, nullptr}, want);
  std::vector<torch::Tensor> image_keys, text_keys;
  for (int64_t k = 0; k < 3; ++k) {  // like the picture of one of the samples and the question of another
    image_keys.push_back(apart_from_mean(base.image, 3 * k).to(at::kDouble));
    text_keys.push_back(apart_from_mean(base.text, (3 * k + 4) % 8).to(at::kDouble));
    put_tensor(*test->method, "image." + std::to_string(k), image_keys.back().to(at::kFloat));
    put_tensor(*test->method, "text." + std::to_string(k), text_keys.back().to(at::kFloat));
  }
  const auto routed = test->pass(batch, 3, true);
  const auto& given = routed.given.at(test->bank->number(kBranchSlot));
  ASSERT_EQ(routed.choices.size(), 8u);
  std::set<size_t> chosen;
  int64_t pictures_differ = 0, questions_differ = 0;
  const auto largest = [](const std::vector<double>& of) {
    return static_cast<size_t>(std::max_element(of.begin(), of.end()) - of.begin());
  };
  for (int64_t b = 0; b < 8; ++b) {
    std::vector<double> images, texts, nearness;
    for (size_t k = 0; k < 3; ++k) {
      images.push_back(key_cosine(base.image[b].to(at::kDouble), image_keys[k]));
      texts.push_back(key_cosine(base.text[b].to(at::kDouble), text_keys[k]));
      nearness.push_back(images.back() + texts.back());
    }
    const size_t best = largest(nearness);
    pictures_differ += largest(images) != best ? 1 : 0;
    questions_differ += largest(texts) != best ? 1 : 0;
    chosen.insert(best);
    for (size_t k = 0; k < 3; ++k)
      EXPECT_EQ(given[b][static_cast<int64_t>(k)].item<double>(), k == best ? 1 : 0) << b << " " << k;
    EXPECT_EQ(routed.choices[static_cast<size_t>(b)].slot, "stage-" + std::to_string(best + 1));
  }
  EXPECT_EQ(chosen.size(), 3u);
  EXPECT_GT(pictures_differ, 0) << "pictures alone would choose the same";
  EXPECT_GT(questions_differ, 0) << "questions alone would choose the same";
}

// With `encoder` keys are as wide as CLIP's projections, learn from them and choose by them.
TEST(BranchLora, KeysAreOfTheEncoderThatIsGiven) {
  const std::string clip = ASR_SOURCE_DIR "/tests/fixtures/clip/new";
  BranchCase test(MethodOptions{{"branches", "4"}, {"encoder", clip}});
  const auto set = test->data(2);
  for (int stage = 1; stage <= 2; ++stage) test.pass_stage(stage, set);
  EXPECT_EQ(test->method->encoder_folders(), std::vector<std::string>{clip});
  EXPECT_FALSE(test->method->needs(1).reference);
  const ClipEncoder encoder(clip);
  std::vector<Image8> pictures;
  std::vector<std::string> questions;
  for (int64_t i = 0; i < 6; ++i) {
    pictures.push_back(set.picture(i));
    questions.push_back(set.info(i).question);
  }
  const auto image = encoder.pictures(pictures).to(at::kDouble);
  const auto text = encoder.texts(questions, ClipTextForm::projected).to(at::kDouble);
  EXPECT_EQ(held_tensor(*test->method, "image.0").sizes(), image[0].sizes());
  EXPECT_EQ(held_tensor(*test->method, "text.1").sizes(), text[0].sizes());
  std::vector<torch::Tensor> image_keys, text_keys;
  for (int64_t k = 0; k < 2; ++k) {  // each like one of the samples
    image_keys.push_back(apart_from_mean(image, 4 * k));
    text_keys.push_back(apart_from_mean(text, 4 * k));
    put_tensor(*test->method, "image." + std::to_string(k), image_keys.back().to(at::kFloat));
    put_tensor(*test->method, "text." + std::to_string(k), text_keys.back().to(at::kFloat));
  }
  auto batch = set.rows(range(0, 6));
  const auto routed = test->pass(batch, 2, true);
  double expected = 0;
  for (int64_t b = 0; b < 6; ++b) {
    std::vector<double> nearness;
    for (size_t k = 0; k < 2; ++k)
      nearness.push_back(key_cosine(image[b], image_keys[k]) + key_cosine(text[b], text_keys[k]));
    EXPECT_EQ(routed.choices[static_cast<size_t>(b)].slot, nearness[1] > nearness[0] ? "stage-2" : "stage-1") << b;
    expected += (2 - nearness[1]) / 6;
  }
  EXPECT_NEAR(test->losses(batch).total().item<double>(), expected, 1e-5);
}

TEST(BranchLora, ListsTheTasksThatSamplesWereTakenFor) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "branchlora");
  for (const auto& [key, value] : MethodOptions{{"stream.tasks", "2"}, {"stream.train", "8"}, {"stream.val", "6"}})
    list.push_back({key, value, "test"});
  const auto table = read_text(run_small(list)[0] + "/routing.csv");
  EXPECT_EQ(table.substr(0, table.find('\n')), "task,stage-1,stage-2,base");
  int64_t rows = 0;
  for (size_t begin = table.find('\n') + 1; begin < table.size(); begin = table.find('\n', begin) + 1) {
    const auto line = table.substr(table.find(',', begin) + 1);
    const auto first = std::stoll(line), second = std::stoll(line.substr(line.find(',') + 1));
    EXPECT_EQ(first + second, 6);
    ++rows;
  }
  EXPECT_EQ(rows, 2);
}

// What is trained is counted where most of it is, in the first stage, not after branches were frozen.
TEST(BranchLora, CountsWhatItTrainedBeforeItFroze) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  std::vector<double> counts, kept;
  for (const std::string tasks : {"2", "3"}) {
    auto list = small_run(folder / "model", folder / tasks, "branchlora");
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"stream.tasks", tasks}, {"max_stage_steps", "1"}, {"lora_rank", "8"}})
      list.push_back({key, value, "test"});
    const auto metrics = nlohmann::json::parse(read_text(run_small(list)[0] + "/metrics.json"));
    counts.push_back(metrics["cost"]["adapter_parameters"].get<double>());
    kept.push_back(metrics["cost"]["stored_bytes"].get<double>());
    EXPECT_GE(metrics["cost"]["prepare_seconds"].get<double>(), 0);
  }
  // A stage more leaves at least its routers behind: 8 numbers for each of 32 inputs of a linear, two linears a layer.
  EXPECT_GT(kept[1] - kept[0], 4 * 8 * 32 * 2 * 2);
  EXPECT_GT(counts[0], 0);
  EXPECT_EQ(counts[0], counts[1]);
}

TEST(BranchLora, RefusesWhatCannotBe) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto message = [&](const std::string& method, const std::string& key, const std::string& value) {
    auto list = small_run(folder / "model", folder / (method + value), method);
    list.push_back({key, value, "test"});
    return message_of([&] { run_small(list); });
  };
  EXPECT_CONTAINS(message("branchlora", "branchlora.top", "9"), "branchlora.top=9 of branchlora.branches=8");
  EXPECT_CONTAINS(message("branchlora", "branchlora.branches", "3"), "branchlora.branches=3 does not divide lora_rank");
  EXPECT_CONTAINS(message("branchlora", "stream.tasks", "1"), "this stream has one task");
  EXPECT_CONTAINS(message("branchlora+moelora", "lora_rank", "8"),
                  "methods branchlora and moelora both lay out the adapters");
}

TEST(BranchLora, RunsOnEveryKindOfModelWithBothHeads) {
  expect_runs_on_every_kind("branchlora");
}

}  // namespace
}  // namespace asr
