// An adapter merged into a checkpoint's files: the same numbers as base and adapter, every other tensor bit by bit.
#include "backbones/merge.h"

#include <cstring>
#include <set>

#include "tests/backbones/reference_checks.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

bool same_bytes(const ByteSpan& a, const ByteSpan& b) {
  return a.size == b.size && std::memcmp(a.data, b.data, a.size) == 0;
}

torch::Tensor logits_of(const PretrainedBackbone& model, const Golden& golden) {
  at::NoGradGuard no_grad;
  const auto batch = batch_of(golden);
  return model.language().logits(model.inspect(batch, Pass{}, {}, batch.mask).hidden).index({batch.mask});
}

class Merge : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { golden = open_reference(GetParam()); }
  Golden golden;
};
INSTANTIATE_TEST_SUITE_P(All, Merge, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(Merge, GivesTheNumbersOfBaseAndAdapter) {
  if (IsSkipped()) return;
  TemporaryFolder folder;
  const auto result = merge_adapter({golden.folder, golden.folder + "/adapter", folder / "merged/"});
  const auto adapted = open_model(golden.folder);
  const auto adapter = load_adapter(*adapted, golden.folder + "/adapter");
  EXPECT_EQ(result.changed, static_cast<int64_t>(adapter.size() / 2));
  const auto merged = open_model(folder / "merged"), base = open_model(golden.folder);
  const auto found = logits_of(*merged, golden), expected = logits_of(*adapted, golden);
  // In bfloat16 the sum is rounded to the weight's eight bits.
  const bool few_bits = merged->token_embedding().element_size() < 4;
  EXPECT_LE(apart(found, expected), few_bits ? 0.1 : 1e-4);
  EXPECT_GT(apart(found, logits_of(*base, golden)), few_bits ? 0 : 1e-3);

  const auto before = read_safetensors_set(golden.folder), after = read_safetensors_set(folder / "merged");
  ASSERT_EQ(before.shards.size(), after.shards.size());
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  std::set<std::string> touched;
  for (const auto& [name, parameter] : adapter) touched.insert(name.substr(0, name.find(".lora_")) + ".weight");
  size_t changed = 0;
  for (const auto& [name, view] : before.tensors) {
    const auto& other = *after.tensors.at(name);
    EXPECT_EQ(view->dtype, other.dtype);
    EXPECT_EQ(view->shape, other.shape);
    const bool in_adapter = touched.count(adapted->current_name(name)) > 0;
    EXPECT_EQ(same_bytes(view->data, other.data), !in_adapter) << name;
    changed += in_adapter;
  }
  EXPECT_EQ(changed, touched.size());
  for (const auto& entry : fs::directory_iterator(golden.folder))
    if (entry.path().extension() == ".json") {
      EXPECT_EQ(read_text(entry.path()), read_text(folder / "merged/" + entry.path().filename().string()));
    }
  EXPECT_FALSE(fs::exists(folder / "merged/io.safetensors") || fs::exists(folder / "merged/adapter"));
  EXPECT_EQ(fs::exists(golden.folder + "/qformer_tokenizer"), fs::exists(folder / "merged/qformer_tokenizer"));

  merge_adapter({folder / "merged", golden.folder + "/adapter", folder / "back", /*unmerge=*/true});
  EXPECT_LE(apart(logits_of(*open_model(folder / "back"), golden), logits_of(*base, golden)), few_bits ? 0.1 : 1e-4);
}

class BadMerge : public ::testing::Test {
 protected:
  void SetUp() override { golden = open_reference("llava"); }
  std::string refused(const std::string& adapter, const std::string& output) {
    const auto message = error_of([&] { merge_adapter({golden.folder, adapter, output}); });
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
    return message;
  }
  Golden golden;
  TemporaryFolder folder;
};

TEST_F(BadMerge, IsOneLineAndLeavesNothing) {
  const auto adapter = golden.folder + "/adapter";
  fs::create_directories(folder / "full");
  write_text(folder / "full/note.txt", "mine");
  EXPECT_CONTAINS(refused(adapter, folder / "full"), "is not empty");
  EXPECT_EQ(read_text(folder / "full/note.txt"), "mine");
  EXPECT_CONTAINS(refused(adapter, folder / "full/note.txt"), "is a file");
  EXPECT_CONTAINS(refused(adapter, golden.folder + "/merged"), "inside the model's folder");
  EXPECT_CONTAINS(refused(adapter, ""), "no name");
  EXPECT_CONTAINS(refused(folder / "none", folder / "out"), "adapter_config.json");
  const auto other = open_reference("llama");
  EXPECT_CONTAINS(refused(other.folder + "/adapter", folder / "out"), "is no linear of");
  auto config = nlohmann::json::parse(read_text(adapter + "/adapter_config.json"));
  config["r"] = 3;
  write_text(adapter + "/adapter_config.json", config.dump());
  EXPECT_CONTAINS(refused(adapter, folder / "out"), "where adapter_config.json says 3");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST_F(BadMerge, BrokenLinksAreLeftOutAndAnEmptyFolderMayBeTheOutput) {
  fs::create_symlink(golden.folder + "/gone", golden.folder + "/vocab.txt");
  EXPECT_GT(merge_adapter({golden.folder, golden.folder + "/adapter", folder / "out"}).files, 3);
  EXPECT_FALSE(fs::exists(folder / "out/vocab.txt"));
  fs::create_directories(folder / "empty");
  EXPECT_GT(merge_adapter({golden.folder, golden.folder + "/adapter", folder / "empty"}).changed, 0);
  EXPECT_TRUE(fs::exists(folder / "empty/config.json"));
}

}  // namespace
}  // namespace asr
