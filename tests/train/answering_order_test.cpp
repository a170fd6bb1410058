// Rows are answered in the order that suits a model; answers, slots and scores come back in the order of the rows.
#include <atomic>
#include <thread>

#include "adapters/bank.h"
#include "data/packed_samples.h"
#include "nn/merged_weights.h"
#include "tests/train/run_support.h"
#include "train/evaluator.h"
#include "train/objectives.h"

namespace asr {
namespace {

// Answers with the ids of the rows that were routed last.
struct EchoObjective final : Objective {
  explicit EchoObjective(const std::vector<std::string>& last) : ids(last) {}
  std::string head() const override { return "generate"; }
  void ask_for_loss(Want&) const override {}
  void ask_for_logits(Want&) const override {}
  torch::Tensor loss(const Output&, const SampleBatch&, const torch::Tensor&) const override { return {}; }
  torch::Tensor logits(const Output&, const std::vector<torch::Tensor>&) const override { return {}; }
  int64_t learnt(const SampleBatch&) const override { return 0; }
  std::vector<std::string> answers(const Backbone&, const Batch& batch, const Pass&, int64_t) const override {
    EXPECT_EQ(batch.same_picture.size(), ids.size());
    return ids;
  }
  const std::vector<std::string>& ids;
};

TEST(AnsweringOrder, AnswersComeBackInTheOrderOfTheRows) {
  const auto model = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
  PictureSource source;
  source.picture = [](int64_t) { return Image8{32, 32, std::vector<uint8_t>(32 * 32 * 3, 90)}; };
  source.file = [](int64_t i) { return PictureFile{cat(i % 3, ".png")}; };
  const auto text = [](int64_t i) {
    StreamSample out;
    out.id = cat("q", i);
    out.question = std::string(static_cast<size_t>(20 - i), 'a') + "?";
    out.answer = cat(i < 5 ? "q" : "other ", i);
    out.references = {out.answer};
    return out;
  };
  const auto set = packed_samples(8, text, source, *model, nullptr);
  std::vector<std::string> ids, answered;
  const PassFor pass = [&](const SampleBatch& batch) {
    RoutedPass out;
    ids.clear();
    for (const auto& info : batch.info) {
      ids.push_back(info.id);
      answered.push_back(info.id);
      out.choices.push_back({"slot of " + info.id, 1});
    }
    return out;
  };
  const Team alone;
  const auto score = evaluate_task({*model, EchoObjective(ids), pass}, *set, "exact", 3, alone);
  ASSERT_EQ(score.texts.size(), 8u);
  EXPECT_NE(answered, score.texts);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(score.texts[i], cat("q", i));
    EXPECT_EQ(score.slots[i], cat("slot of q", i));
    EXPECT_EQ(score.per_sample[i], i < 5 ? 1 : 0);
  }
}

TEST(AnsweringOrder, PicturesAreReadAheadByOtherThreads) {
  const auto model = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
  const auto text = [](int64_t i) {
    StreamSample out;
    out.id = cat("q", i);
    out.question = "what?";
    out.answer = "a";
    out.references = {out.answer};
    return out;
  };
  std::vector<std::string> ids;
  const PassFor pass = [&](const SampleBatch& batch) {
    ids.clear();
    for (const auto& info : batch.info) ids.push_back(info.id);
    return RoutedPass();
  };
  const auto read_here = [&](int64_t workers) {
    const auto here = std::this_thread::get_id();
    std::atomic<int> own{0}, all{0};
    PictureSource source;
    source.picture = [&](int64_t) {
      ++all;
      own += std::this_thread::get_id() == here;
      return Image8{32, 32, std::vector<uint8_t>(32 * 32 * 3, 90)};
    };
    const auto set = packed_samples(12, text, source, *model, nullptr);
    const EchoObjective objective(ids);
    Answerer who{*model, objective, pass};
    who.workers = workers;
    const Team alone;
    EXPECT_EQ(answer_rows(who, *set, 3, alone).texts.size(), 12u);
    EXPECT_EQ(all, 13) << "all rows, and the first once more: is it routed?";
    return own.load();
  };
  EXPECT_EQ(read_here(0), 13);
  EXPECT_EQ(read_here(2), 4) << "the first block, for which nobody could wait";
}

// Generates, and notes how.
struct WatchedObjective final : Objective {
  std::string head() const override { return "generate"; }
  void ask_for_loss(Want& want) const override { inner->ask_for_loss(want); }
  void ask_for_logits(Want& want) const override { inner->ask_for_logits(want); }
  torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const override {
    return inner->loss(output, batch, weights);
  }
  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters) const override {
    return inner->logits(output, parameters);
  }
  int64_t learnt(const SampleBatch& batch) const override { return inner->learnt(batch); }
  std::vector<std::string> answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                   int64_t longest) const override {
    slots.push_back(pass.slots);
    merged.push_back(pass.merged ? pass.merged->size() : 0);
    return inner->answers(model, batch, pass, longest);
  }
  std::unique_ptr<Objective> inner = language_objective();
  mutable std::vector<uint64_t> slots;
  mutable std::vector<size_t> merged;
};

// A Hugging Face model with three slots, of which the last letter of a row's id chooses one, or the base.
class RoutedRows : public ::testing::Test {
 protected:
  RoutedRows() {
    SiteLayout each;
    each.rank = 2;
    each.answering.kind = GateKind::given;
    for (int k = 0; k < kSlots; ++k) bank.add(alike(cat("slot-", k), model->sites(), each), static_cast<uint64_t>(k));
    torch::manual_seed(11);
    at::NoGradGuard no_grad;
    for (auto& [name, tensor] : bank.tensors())
      if (name.find("lora_B") != std::string::npos) tensor.normal_(0, 0.5);
  }

  RoutedPass routed(const SampleBatch& batch) const {
    RoutedPass out;
    out.how.answering = true;
    out.how.slots = bank.answering();
    for (int k = 0; k < kSlots; ++k) {
      std::vector<float> weights;
      for (const auto& info : batch.info) weights.push_back(info.id.back() - '0' == k ? 1.0f : 0.0f);
      const auto column = torch::tensor(weights).unsqueeze(1);
      if (column.any().item<bool>())
        out.given[bank.number(cat("slot-", k))] = column;
      else
        out.how.slots &= ~bank.bit(cat("slot-", k));
    }
    for (const auto& info : batch.info) {
      const int k = info.id.back() - '0';
      out.choices.push_back({k < kSlots ? cat("slot-", k) : "", 1});
    }
    return out;
  }

  std::shared_ptr<PackedSamples> samples(const std::function<int(int64_t)>& slot_of) const {
    PictureSource source;
    source.picture = [](int64_t i) {
      return Image8{32, 32, std::vector<uint8_t>(32 * 32 * 3, static_cast<uint8_t>(20 * (i % 4)))};
    };
    source.file = [](int64_t i) { return PictureFile{cat(i % 4, ".png")}; };
    const auto text = [&](int64_t i) {
      StreamSample out;
      out.id = cat("q", i, " ", slot_of(i));
      out.question = std::string(static_cast<size_t>(1 + i % 5), 'a') + "?";
      out.answer = "a";
      out.references = {out.answer};
      return out;
    };
    return packed_samples(18, text, source, *model, nullptr);
  }

  static constexpr int kSlots = 3;
  std::unique_ptr<Backbone> model = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
  AdapterBank bank{model->all_sites()};
  const Team alone;
};

TEST_F(RoutedRows, AreAnsweredSlotBySlotAsTogether) {
  const auto set = samples([](int64_t i) { return static_cast<int>((i / 4 + i) % (kSlots + 1)); });
  const PassFor pass = [&](const SampleBatch& batch) { return routed(batch); };
  WatchedObjective plain, grouped, merged;
  const auto expected = answer_rows({*model, plain, pass, {}, false}, *set, 4, alone);
  const auto by_slot = answer_rows({*model, grouped, pass}, *set, 4, alone);
  const auto with_merged = answer_rows({*model, merged, pass, bank.sites()}, *set, 4, alone);
  EXPECT_EQ(by_slot.texts, expected.texts);
  EXPECT_EQ(by_slot.slots, expected.slots);
  EXPECT_EQ(with_merged.texts, expected.texts);
  EXPECT_EQ(with_merged.slots, expected.slots);
  const auto several = [&](const std::vector<uint64_t>& slots) {
    int out = 0;
    for (const uint64_t mask : slots) out += __builtin_popcountll(mask & 7) > 1;
    return out;
  };
  EXPECT_EQ(plain.slots.size(), 5u);
  EXPECT_GE(several(plain.slots), 4) << "otherwise there is nothing to group";
  EXPECT_LE(several(grouped.slots), kSlots) << "blocks between two slots alone have both";
  int copies = 0;
  for (size_t i = 0; i < merged.slots.size(); ++i) {
    const bool one = __builtin_popcountll(merged.slots[i] & 7) == 1;
    if (merged.merged[i] == 0) continue;
    ++copies;
    EXPECT_TRUE(one && merged.merged[i] == model->sites().size());
  }
  EXPECT_GE(copies, 2);
}

TEST_F(RoutedRows, OfAnotherSlotHaveOtherAnswers) {
  const PassFor pass = [&](const SampleBatch& batch) { return routed(batch); };
  WatchedObjective objective;
  std::set<std::vector<std::string>> seen;
  for (int k = 0; k <= kSlots; ++k) {
    const auto set = samples([k](int64_t) { return k; });
    seen.insert(answer_rows({*model, objective, pass, bank.sites()}, *set, 4, alone).texts);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kSlots) + 1);
}

// Without a choice one copy serves the whole set.
TEST_F(RoutedRows, AdaptersWithoutAGateAreMerged) {
  while (!bank.slots().empty()) bank.remove(bank.slots().back());
  SiteLayout each;
  each.rank = 2;
  bank.add(alike("trained", model->sites(), each), 1);
  at::NoGradGuard no_grad;
  for (auto& [name, tensor] : bank.tensors()) tensor.normal_(0, 0.4);
  const PassFor pass = [&](const SampleBatch&) {
    RoutedPass out;
    out.how.answering = true;
    out.how.slots = bank.answering();
    return out;
  };
  const PassFor base = [](const SampleBatch&) {
    RoutedPass out;
    out.how.slots = 0;
    return out;
  };
  const auto set = samples([](int64_t) { return 0; });
  WatchedObjective own, merged, none;
  const auto expected = answer_rows({*model, own, pass}, *set, 4, alone);
  EXPECT_EQ(answer_rows({*model, merged, pass, bank.sites()}, *set, 4, alone).texts, expected.texts);
  EXPECT_NE(answer_rows({*model, none, base, bank.sites()}, *set, 4, alone).texts, expected.texts);
  EXPECT_TRUE(expected.slots.empty());
  for (const size_t count : merged.merged) EXPECT_EQ(count, model->sites().size());
  for (const size_t count : none.merged) EXPECT_EQ(count, 0u) << "the base answers as it is";
}

// Adapters, scores and what is kept; only the last bits of a logit may differ, and here no answer hangs on them.
TEST(AnswersMerge, ARunLearnsTheSameAndResumes) {
  TemporaryFolder folder;
  write_small_model(folder / "model.safetensors");
  const auto run = [&](const std::string& out, const std::string& merge) {
    auto options = small_run(folder / "model.safetensors", folder / out, "vanilla");
    options.push_back({"answers.merge", merge, "test"});
    return options;
  };
  run_small(run("no", "no"));
  run_small(run("yes", "yes"));
  run_small(run("again", "yes"));
  const auto file = [&](const std::string& out, const std::string& name) {
    return read_text(folder / out + "/vanilla/" + name);
  };
  EXPECT_EQ(file("no", "adapter/adapter_model.safetensors"), file("yes", "adapter/adapter_model.safetensors"));
  EXPECT_EQ(file("no", "matrix.csv"), file("yes", "matrix.csv"));
  expect_same_run(folder / "yes/vanilla", folder / "again/vanilla");
  EXPECT_CONTAINS(message_of([&] { run_small(run("yes", "no"), true); }), "answers.merge");
}

}  // namespace
}  // namespace asr
