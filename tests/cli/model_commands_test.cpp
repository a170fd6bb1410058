// asr forward, generate, preprocess and merge as a user meets them: on a GPU as on the CPU, merged as with the adapter,
// and one line for what cannot be.
#include <cmath>
#include <functional>

#include "io/png.h"
#include "tensor/runtime.h"
#include "tensor/tensor_io.h"
#include "tests/support/process_runs.h"
#include "tests/support/program.h"
#include "tests/support/reference_models.h"

namespace asr {
namespace {

std::vector<std::string> forward(const std::string& model, const std::string& io, const std::string& out,
                                 std::vector<std::string> more = {}) {
  std::vector<std::string> list = {"forward", "--model", model, "-i", io, "-o", out};
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

double apart(const Safetensors& a, const Safetensors& b, const std::string& name) {
  return (load_real(a, name) - load_real(b, name)).abs().max().item<double>();
}

TEST(ModelCommands, OnAGpuTheNumbersAreThoseOfTheCpu) {
  if (!runtime_info().cuda) GTEST_SKIP() << "there is no GPU here";
  for (const auto& name : reference_models()) {
    if (name.rfind("golden:", 0) == 0) continue;
    const auto model = open_reference(name);
    TemporaryFolder folder;
    for (const std::string device : {"cpu", "cuda"}) {
      const auto outcome = run_program(forward(model.folder, model.folder + "/io.safetensors", folder / device,
                                               {"--adapter", model.folder + "/adapter", "--grad", "--generate", "4",
                                                "--device", device, "--precision", "float32"}));
      ASSERT_EQ(outcome.status, 0) << name << " on " << device << ": " << outcome.error;
    }
    const auto cpu = read_safetensors(folder / "cpu"), gpu = read_safetensors(folder / "cuda");
    ASSERT_EQ(cpu.tensors.size(), gpu.tensors.size()) << name;
    const auto real = load_index(read_safetensors(model.folder + "/io.safetensors"), "in.attention_mask").unsqueeze(-1);
    for (const auto& view : cpu.tensors) {
      const bool whole = view.dtype == Dtype::I64, gradient = view.name.rfind("grad.", 0) == 0;
      const double largest = load_real(cpu, view.name).abs().max().item<double>();
      auto difference = (load_real(cpu, view.name) - load_real(gpu, view.name)).abs();
      // What stands at padding means nothing, and the kernels of the two differ there.
      if (view.name == "logits" || view.name == "last_hidden") difference = difference * real;
      EXPECT_LE(difference.max().item<double>(), whole      ? 0
                                                 : gradient ? 3e-3 * largest
                                                            : 5e-4)
          << name << " " << view.name;
    }
  }
}

// Two tasks of eight questions about two pictures, the first of them for validation too.
void write_two_tasks(const TemporaryFolder& folder) {
  std::filesystem::create_directories(folder / "data");
  write_grey_picture(folder / "data/dark.png", 20, 24);
  write_grey_picture(folder / "data/light.png", 220, 24);
  auto tasks = nlohmann::json::array();
  for (const std::string task : {"first", "second"}) {
    std::string rows;
    for (int i = 0; i < 8; ++i)
      rows += nlohmann::json{{"id", i},
                             {"image", i % 2 == 0 ? "dark.png" : "light.png"},
                             {"question", "is the " + task + " one light?"},
                             {"answer", i % 2 == 0 ? "no" : "yes"}}
                  .dump() +
              "\n";
    write_text(folder / ("data/" + task + ".jsonl"), rows);
    write_text(folder / ("data/" + task + "-val.jsonl"), rows.substr(0, rows.find('\n') + 1));
    tasks.push_back({{"name", task}, {"files", {{"train", task + ".jsonl"}, {"val", task + "-val.jsonl"}}}});
  }
  write_text(folder / "data/stream.json", nlohmann::json{{"tasks", tasks}}.dump());
}

// The folder knows how its run set the model up: prompts, the grid, the layer whose states are pooled.
TEST(ModelCommands, AnAdapterWithGatesAnswersAsItsRunDid) {
  TemporaryFolder folder;
  write_two_tasks(folder);
  const auto model = std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models/llava";
  for (const std::string method : {"hide-llava", "d-mole", "route"}) {
    const auto config = write_config(folder, method,
                                     {{"method", method},
                                      {"model_name_or_path", model},
                                      {"stream.name", "manifest"},
                                      {"stream.path", folder / "data"},
                                      {"stream.tasks", "2"},
                                      {"attention.layers", "1"},
                                      {"attention.grid", "6"},
                                      {"geometry.layer", "1"},
                                      {"recipe", "asr-paper"},
                                      {"route.keys", "[spectra]"},
                                      {"d-mole.epochs", "2"},
                                      {"learning_rate", "0.05"},
                                      {"per_device_eval_batch_size", "1"},
                                      {"max_stage_steps", "2"}});
    const auto outcome = run_program({"run", config, "--threads", "1"});
    ASSERT_EQ(outcome.status, 0) << outcome.error;
    const auto made = folder / (method + "/" + method);
    const auto first = read_text(made + "/predictions/stage-02-task-01.jsonl");
    const auto evaluated = nlohmann::json::parse(first.substr(0, first.find('\n')));
    std::vector<std::string> ask = {
        "generate", "--model", model, "--adapter", made + "/adapter", "--prompt", "is the first one light?", "--json"};
    const bool needs_picture = method == "route";  // by spectra
    EXPECT_EQ(run_program(ask).status, needs_picture ? 2 : 0) << method << " without a picture";
    ask.insert(ask.end(), {"--image", folder / "data/dark.png"});
    const auto answered = run_program(ask).json();
    EXPECT_EQ(answered["text"], evaluated["text"]) << method;
    if (method != "route") continue;
    const auto stage = evaluated["slot"].get<std::string>();
    EXPECT_EQ(answered["routed_to"]["stage"], stage);
    EXPECT_NEAR(answered["routed_to"]["probability"].get<double>(), evaluated["slots"][stage].get<double>(), 1e-3);
  }
  expect_refused({"merge", "--model", model, "--adapter", folder / "route/route/adapter", "-o", folder / "merged"},
                 "which 'asr generate' alone can use");
  expect_refused({"merge", "--model", model, "--adapter", folder / "route/route", "-o", folder / "merged"},
                 "is the folder of a run; its adapter is");
}

TEST(ModelCommands, MergedIsAsWithTheAdapter) {
  const auto model = open_reference("llama");
  TemporaryFolder folder;
  const auto io = model.folder + "/io.safetensors", adapter = model.folder + "/adapter", out = folder / "merged";
  for (const char* left : {".tmp-123", ".tmp-mine", ".tmp-"}) std::filesystem::create_directories(out + left + "/x");
  const auto merged = run_program({"merge", "--model", model.folder, "--adapter", adapter, "-o", out, "--json"});
  ASSERT_EQ(merged.status, 0) << merged.error;
  EXPECT_GT(merged.json()["changed"].get<int64_t>(), 0);
  EXPECT_FALSE(std::filesystem::exists(out + ".tmp-123"));  // of a process that was killed
  for (const char* users : {".tmp-mine/x", ".tmp-/x"}) EXPECT_TRUE(std::filesystem::exists(out + users)) << users;
  ASSERT_EQ(run_program(forward(model.folder, io, folder / "a", {"--adapter", adapter})).status, 0);
  ASSERT_EQ(run_program(forward(out, io, folder / "b")).status, 0);
  EXPECT_LE(apart(read_safetensors(folder / "a"), read_safetensors(folder / "b"), "logits"), 1e-4);
  expect_refused({"merge", "--model", model.folder, "--adapter", adapter, "-o", out}, "is not empty");
  expect_refused({"merge", "--model", model.folder, "--adapter", folder / "none", "-o", folder / "new"},
                 "adapter_config.json");
}

TEST(ModelCommands, AttentionOverPaddedSamplesIsMeasured) {
  const auto outcome = run_program({"bench", "attention", "--batch", "2", "--tokens", "20", "--heads", "2", "--width",
                                    "8", "--turns", "1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  for (const char* key : {"order_ms", "masked_ms", "plain_ms"}) EXPECT_GT(outcome.json()[key].get<double>(), 0) << key;
}

TEST(ModelCommands, BadInputIsOneLine) {
  auto model = open_reference("llava");
  TemporaryFolder folder;
  const auto io = model.folder + "/io.safetensors", pixel = folder / "pixel.png", strip = folder / "strip.png";
  const std::vector<uint8_t> grey(20000 * 3, 100);
  write_text(pixel, encode_png(grey.data(), 1, 1));
  write_text(strip, encode_png(grey.data(), 20000, 1));
  const auto done =
      run_program({"preprocess", "--model", model.folder, pixel, strip, "-o", folder / "pixels.safetensors"});
  EXPECT_EQ(done.status, 0) << done.error;
  const auto other = open_reference("qwen2_5_vl");
  expect_refused({"preprocess", "--model", other.folder, strip, "-o", folder / "x"}, "one side is more than 200");
  expect_refused({"generate", "--model", model.folder, "--image", pixel, "--prompt", std::string(3000, 'x')},
                 "do not fit into the context of");
  expect_refused({"generate", "--model", model.folder, "--image", pixel, "--prompt", ""}, "give either --prompt");
  std::filesystem::create_directories(folder / "run/adapter");
  write_text(folder / "run/adapter/adapter_config.json", "{}");
  expect_refused({"generate", "--model", model.folder, "--adapter", folder / "run", "--prompt", "what?"},
                 "is the folder of a run; its adapter is");
  write_text(folder / "run/adapter/answer_head.safetensors", "");
  expect_refused({"generate", "--model", model.folder, "--adapter", folder / "run/adapter", "--prompt", "what?"},
                 "trained to choose from a list of answers");
  expect_refused(forward(other.folder, io, folder / "x"), "image_grid_thw");
  expect_refused(forward(model.folder, io, io), "is what is read here");
  const auto good = read_safetensors(io);
  const auto with = [&](const std::string& name, const std::function<void(torch::Tensor&)>& change) {
    NamedTensors list;
    for (const auto& stored : good.tensors) {
      list.emplace_back(stored.name, load_tensor(good, stored.name).clone());
      if (stored.name == name) change(list.back().second);
    }
    save_tensors(folder / "changed", list, {});
    return forward(model.folder, folder / "changed", folder / "x");
  };
  expect_refused(with("in.pixel_values", [](torch::Tensor& t) { t.view(-1)[5] = std::nan(""); }),
                 "in.pixel_values holds NaN or infinite numbers");
  expect_refused(with("in.labels", [](torch::Tensor& t) { t.view(-1)[5] = -1; }), "negative numbers other than -100");
  const auto shards = open_reference("llama");
  std::filesystem::remove(shards.folder + "/model-00002-of-00008.safetensors");
  expect_refused(forward(shards.folder, io, folder / "x"), "shard 'model-00002-of-00008.safetensors' is missing");
  model.config["model_type"] = "gpt_neox";
  write_text(model.folder + "/config.json", model.config.dump());
  expect_refused(forward(model.folder, io, folder / "x"), "'gpt_neox' is not supported");
}

}  // namespace
}  // namespace asr
