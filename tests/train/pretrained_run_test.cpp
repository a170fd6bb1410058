// Whole runs on models from Hugging Face folders: two stages of the world with memory update, stopped after every step
// and resumed to the same bits; on a GPU, where sums of gradients may come in another order, to nearly the same ones.
#include "backbones/adapter_file.h"
#include "base/interrupt.h"
#include "tensor/runtime.h"
#include "tests/support/internvl_folders.h"
#include "tests/support/reference_models.h"
#include "tests/support/small_tokenizer.h"
#include "tests/train/run_support.h"
#include "train/audit.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

std::vector<Assignment> tiny_steps(const std::string& model, const std::string& out, const std::string& method) {
  auto list = small_run(model, out, method);
  const auto set = [&](const std::string& key, const std::string& value) { list.push_back({key, value, "test"}); };
  set("stream.tasks", "2");
  set("stream.train", "4");
  set("stream.val", "2");
  set("per_device_train_batch_size", "2");
  set("attention.layers", "1");
  set("attention.grid", "6");
  set("analysis.samples", "2");
  set("lora_rank", "4");
  set("er.buffer", "3");
  return list;
}

class PretrainedRun : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden = open_reference(GetParam());
    if (IsSkipped()) return;
    if (!golden.io.find("in.pixel_values")) GTEST_SKIP() << "a model of text alone has no attention to pictures";
    if (!fs::exists(golden.folder + "/tokenizer.json")) write_small_tokenizer(golden.folder, golden.config);
  }
  Golden golden;
};
INSTANTIATE_TEST_SUITE_P(All, PretrainedRun, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

void expect_same(const std::string& a, const std::string& b) {
  for (const char* name : {"/matrix.csv", "/adapter/adapter_model.safetensors", "/memory.safetensors",
                           "/predictions/stage-02-task-01.jsonl", "/stages/02/kept.json"})
    EXPECT_TRUE(read_text(a + name) == read_text(b + name)) << a << name;
}

// Two stages in one go, and the same stopped after every step; the folders of both.
std::pair<std::string, std::string> run_and_resume(const Golden& golden, const TemporaryFolder& folder,
                                                   const std::string& device) {
  const auto options = [&](const std::string& out) {
    auto list = tiny_steps(golden.folder, folder / out, "asr");
    list.push_back({"device", device, "test"});
    return list;
  };
  const auto straight = run_small(options("straight"))[0];
  EXPECT_TRUE(audit_run(straight, 4).passed());
  std::string last;
  for (int stop = 0; stop < 12; ++stop) {
    plan_stop(SIGINT, StopPlace::step);
    last = message_of([&] { run_small(options("stopped"), stop > 0); });
    forget_stop();
    if (last.empty()) break;
  }
  EXPECT_EQ(last, "");
  return {straight, (folder / "stopped") + "/asr"};
}

TEST_P(PretrainedRun, StopsAndResumesToTheSameBits) {
  if (IsSkipped()) return;
  TemporaryFolder folder;
  const auto [straight, stopped] = run_and_resume(golden, folder, "cpu");
  expect_same(straight, stopped);
}

TEST_P(PretrainedRun, StopsAndResumesToTheSameBitsOnCuda) {
  if (IsSkipped()) return;
  if (!runtime_info().cuda) GTEST_SKIP() << "there is no GPU here";
  TemporaryFolder folder;
  const auto [straight, stopped] = run_and_resume(golden, folder, "cuda");
  expect_same(straight, stopped);
}

TEST_P(PretrainedRun, EveryMethodAndTheOtherWaysTrain) {
  if (IsSkipped()) return;
  TemporaryFolder folder;
  auto list = tiny_steps(golden.folder, folder / "out", "vanilla");
  const auto set = [&](const std::string& key, const std::string& value) { list.push_back({key, value, "test"}); };
  set("method", "[joint, ewc+lwf, er]");
  EXPECT_EQ(run_small(list).size(), 3u);
  set("method", "asr");
  set("output_dir", folder / "other");
  set("gradient_checkpointing", "yes");
  set("recipe", "asr-paper");
  set("geometry.layer", "1");
  if (golden.config["model_type"].get<std::string>() == "instructblip") set("attention.qformer_rows", "text");
  set("dataloader_num_workers", "0");
  set("head", "answers");
  EXPECT_EQ(run_small(list).size(), 1u);
}

// InternVL's two layouts through the trainer: Qwen2, and InternLM2 with its packed attention. The prompts differ, so
// that numbers do too; both learn, and the adapter of one fits the other.
TEST(InternVlLayoutRun, BothLayoutsTrain) {
  for (const bool llama : {false, true}) {
    const auto golden = open_reference("internvl");
    if (llama) give_llama_decoder(golden.folder);
    const auto chat = *golden.place / "chat";
    write_chat_folder(golden.folder, chat);
    auto config = read_config(chat);
    config["llm_config"]["max_position_embeddings"] = 1024;  // a token a byte makes the system message long
    write_text(chat + "/config.json", config.dump());
    TemporaryFolder folder;
    const auto done = run_small(tiny_steps(chat, folder / "out", "asr"))[0];
    EXPECT_TRUE(audit_run(done, 4).passed());
    const auto model = load_backbone(golden.folder);
    EXPECT_EQ(load_adapter(*model, done + "/adapter").size(), 2u * (2 * 2 + 2));
  }
}

}  // namespace
}  // namespace asr
