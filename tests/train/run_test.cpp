// Runs as a whole: stages, seeds, orders, heads, refusals and damage. What every method owes is in tests/methods.
#include <filesystem>

#include "base/folders.h"
#include "base/interrupt.h"
#include "tests/train/run_support.h"
#include "train/checkpoint.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

TEST(Runs, JointIsOneStageAndHasTheLastRow) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto run = run_small(small_run(folder / "model", folder / "out", "joint"))[0];
  const auto text = read_text(run + "/matrix.csv");
  EXPECT_CONTAINS(text, "\n0,");
  EXPECT_CONTAINS(text, "\n3,");
  const auto metrics = nlohmann::json::parse(read_text(run + "/metrics.json"));
  EXPECT_TRUE(metrics["scores"]["AF"].is_null());
  EXPECT_TRUE(metrics["complete"].get<bool>());
}

TEST(Runs, SeedsAndOrdersDifferAndRepeat) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto options = small_run(folder / "model", folder / "out", "vanilla");
  options.push_back({"seeds", "[0, 3]", "test"});
  options.push_back({"orders", "2", "test"});
  const auto runs = run_small(options);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_CONTAINS(runs[3], "vanilla-seed3-order1");
  const auto adapter = [&](const std::string& run) { return read_text(run + "/adapter/adapter_model.safetensors"); };
  EXPECT_NE(adapter(runs[0]), adapter(runs[1]));
  EXPECT_NE(adapter(runs[0]), adapter(runs[2]));
  options[1].value = folder / "again";
  const auto again = run_small(options);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(adapter(runs[i]) == adapter(again[i])) << i;
}

TEST(Runs, TheCrossBackboneAndTheClosedHeadTrainToo) {
  TemporaryFolder folder;
  write_small_model(folder / "model", "tiny_cross");
  auto options = small_run(folder / "model", folder / "out", "asr+lwf");
  options.push_back({"head", "answers", "test"});
  const auto run = run_small(options)[0];
  const auto lines = read_text(run + "/predictions/stage-03-task-01.jsonl");
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  // A random model spells no answer of the stream; the closed head can give nothing else.
  std::set<std::string> answers;
  StreamOptions stream;
  stream.train = 24;
  stream.val = 8;
  stream.tasks = 3;
  stream.image_size = 32;
  const auto world = make_stream(stream);
  for (size_t task = 0; task < 3; ++task)
    for (const auto split : {DataSplit::train, DataSplit::val})
      for (int64_t i = 0; i < world->size(task, split); ++i) answers.insert(world->sample(task, split, i).answer);
  EXPECT_TRUE(answers.count(first["text"].get<std::string>())) << first["text"];
}

TEST(Runs, RefuseOtherPeoplesFoldersAndBadOptions) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = small_run(folder / "model", folder / "out", "vanilla");
  run_small(options);
  EXPECT_CONTAINS(message_of([&] { run_small(options); }), "use --resume");
  auto other = options;
  other.push_back({"learning_rate", "0.5", "test"});
  EXPECT_CONTAINS(message_of([&] { run_small(other, true); }), "another 'learning_rate'");
  write_text(folder / "file", "x");
  fs::create_directory(folder / "full");
  write_text(folder / "full/thesis.tex", "years of work");
  other = options;
  other[1].value = folder / "full";
  EXPECT_CONTAINS(message_of([&] { run_small(other); }), "is not empty and no run of ours");
  EXPECT_EQ(read_text(folder / "full/thesis.tex"), "years of work");
  other = options;
  other[1].value = folder / "file";
  EXPECT_NE(message_of([&] { run_small(other); }), "");
  const auto message = [&](const std::string& key, const std::string& value) {
    auto list = small_run(folder / "model", folder / "new", "vanilla");
    list.push_back({key, value, "--set"});
    return message_of([&] { run_small(list); });
  };
  EXPECT_CONTAINS(message("method", "asr+asr"), "twice");
  EXPECT_CONTAINS(message("method", "ews"), "did you mean 'ewc'");
  EXPECT_CONTAINS(message("method", "joint+ewc"), "cannot be combined");
  EXPECT_CONTAINS(message("learning_rat", "1"), "did you mean 'learning_rate'");
  EXPECT_CONTAINS(message("lambda", "1"), "did you mean 'ewc.lambda'");
  EXPECT_CONTAINS(message("seeds", "[1, x]"), "is not a whole number");
  EXPECT_CONTAINS(message("seeds", "[1, 1]"), "stands twice");
  EXPECT_CONTAINS(message("stream.name", "world-11"), "did you mean 'world-10'");
  EXPECT_CONTAINS(message("stream.name", "manifest"), "stream.path is not set");
  EXPECT_CONTAINS(message("stream.path", "/x"), "world-10 is built in and reads no folder");
  EXPECT_CONTAINS(message("attention.layers", "9"), "has 2 layers");
  EXPECT_CONTAINS(message("recipe", "asr-paper"), "is for Hugging Face models");
  EXPECT_CONTAINS(message("attention.qformer_rows", "text"), "has no Q-Former");
  EXPECT_CONTAINS(message("device", "tpu"), "use cpu or cuda");
  EXPECT_CONTAINS(message("label", "../x"), "cannot be the name of a folder");
  EXPECT_FALSE(fs::exists(folder / "x"));
  EXPECT_FALSE(fs::exists(folder / "new"));  // nothing is begun that cannot go on
}

TEST(Runs, ADamagedCheckpointFallsBackToTheOneBefore) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto straight = run_small(small_run(folder / "model", folder / "straight", "asr"))[0];
  plan_stop(SIGINT, StopPlace::step);
  for (int i = 0; i < 4; ++i)
    EXPECT_NE(message_of([&] { run_small(small_run(folder / "model", folder / "out", "asr"), i > 0); }), "");
  forget_stop();
  const auto checkpoints = (folder / "out") + "/asr/checkpoints";
  const auto names = list_folder(checkpoints);
  ASSERT_EQ(names.size(), 2u);
  const auto steps = [](const std::string& name) { return std::stoi(name.substr(name.find('-') + 1)); };
  const auto newest =
      checkpoints + "/" + (steps(names[0]) > steps(names[1]) ? names[0] : names[1]) + "/state.safetensors";
  auto bytes = read_text(newest);
  bytes[bytes.size() / 2] ^= 1;
  write_text(newest, bytes);
  fs::remove((folder / "out") + "/asr/log.jsonl");  // the steps count, not what was said of them
  run_small(small_run(folder / "model", folder / "out", "asr"), true);
  expect_same_run(straight, (folder / "out") + "/asr");
}

TEST(Runs, ALossThatIsNotANumberStopsAndNamesTheBatch) {
  TemporaryFolder folder;
  write_small_model(folder / "good");
  const auto model = TinyBackbone::load(folder / "good");
  model->token_embedding().fill_(NAN);
  model->save(folder / "model");
  const auto options = small_run(folder / "model", folder / "out", "vanilla");
  const auto message = message_of([&] { run_small(options); });
  EXPECT_CONTAINS(message, "nan at step 1 of stage 1");
  EXPECT_CONTAINS(message, "batch of world-10/count/train/");
  EXPECT_TRUE(load_latest_checkpoint((folder / "out") + "/vanilla/checkpoints").has_value());
}

}  // namespace
}  // namespace asr
