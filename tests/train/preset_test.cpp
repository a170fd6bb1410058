// Presets of a run's options, the sites of its adapters, and a projector that is trained whole or not at all.
#include "base/interrupt.h"
#include "base/json.h"
#include "tests/train/run_support.h"
#include "train/audit.h"
#include "train/run_parts.h"

namespace asr {
namespace {

RunConfig resolved(std::vector<std::pair<std::string, std::string>> values) {
  std::vector<Assignment> list;
  for (const auto& [key, value] : values) list.push_back({key, value, "test"});
  return resolve_run(list);
}

TEST(Preset, NativeIsWhatTheMethodDeclares) {
  const auto config = resolved({{"method", "lora-ft"}, {"preset", "native"}, {"warmup_ratio", "0.1"}});
  EXPECT_EQ(config.run.lora_rank, 128);
  EXPECT_EQ(config.run.lora_alpha, 256);
  EXPECT_EQ(config.run.learning_rate, 2e-4);
  EXPECT_EQ(config.run.weight_decay, 0);
  EXPECT_EQ(config.run.lora_sites, LoraSites::all);
  EXPECT_EQ(config.run.projector, ProjectorTraining::full);
  EXPECT_EQ(config.run.projector_learning_rate, 2e-5);
  EXPECT_EQ(config.run.warmup_ratio, 0.1);  // somebody set it
  EXPECT_CONTAINS(config.preset_note, "native: learning_rate=2e-4, ");
  EXPECT_CONTAINS(config.preset_note, "; as given: warmup_ratio");
  EXPECT_EQ(resolved({{"method", "lora-ft"}}).run.lora_rank, 16);
  EXPECT_EQ(resolved({{"method", "lora-ft"}}).preset_note, "");
}

TEST(Preset, MayBelongToAMethodsOwnOptions) {
  const auto config = resolved({{"method", "o-lora"}, {"preset", "native"}});
  EXPECT_EQ(config.manifest()["o-lora"]["orthogonality"].get<double>(), 0.05);
  const auto given = resolved({{"method", "o-lora"}, {"preset", "native"}, {"o-lora.orthogonality", "2"}});
  EXPECT_EQ(given.manifest()["o-lora"]["orthogonality"].get<double>(), 2);
}

TEST(Preset, PaperIsOneForAllMethods) {
  const auto config = resolved({{"method", "[asr, lora-ft]"}, {"preset", "asr-paper"}, {"learning_rate", "1e-4"}});
  EXPECT_EQ(config.run.learning_rate, 1e-4);
  EXPECT_EQ(config.run.weight_decay, 0.01);
  EXPECT_EQ(config.run.warmup_ratio, 0);
  EXPECT_EQ(config.run.lora_rank, 16);
  EXPECT_EQ(config.run.lora_sites, LoraSites::usual);
  EXPECT_EQ(config.run.recipe, Recipe::asr_paper);
}

// Method and all, as the file has them; where somebody set the method, it must be one that the preset is for.
TEST(Preset, AsrBestIsItsFile) {
  const auto path = std::string(ASR_SOURCE_DIR) + "/configs/asr-best.yaml";
  const auto config = resolved({{"preset", "asr-best"}});
  EXPECT_EQ(config.run.method, (std::vector<std::string>{"route"}));
  auto own = config.manifest(), of_file = resolve_run(parse_yaml_options(read_text(path), path)).manifest();
  EXPECT_EQ(own["route"]["start"], "auto");
  EXPECT_EQ(own["preset"], "asr-best");
  own.erase("preset");
  of_file.erase("preset");
  EXPECT_EQ(own, of_file);
  EXPECT_CONTAINS(config.preset_note,
                  "asr-best: method=route, route.further=[late], route.start=auto, num_train_epochs=2");
  const auto given = resolved(
      {{"preset", "asr-best"}, {"method", "[vanilla, asr+route]"}, {"num_train_epochs", "1"}, {"output_dir", "x"}});
  EXPECT_EQ(given.run.num_train_epochs, 1);
  EXPECT_EQ(given.manifest()["route"]["start"], "auto");
  EXPECT_CONTAINS(given.preset_note, "; as given: method, num_train_epochs");
  EXPECT_EQ(resolve_run(parse_yaml_options(yaml_text(given.manifest()), "stored")).manifest(), given.manifest());
  EXPECT_CONTAINS(message_of([] {
                    resolved({{"preset", "asr-best"}, {"method", "[vanilla, ewc]"}});
                  }),
                  "a setting of the method route, but method is vanilla, ewc; set method=route");
}

TEST(Preset, RefusesWhatOneFolderCannotHold) {
  const auto message = message_of([] { resolved({{"method", "[lora-ft, o-lora]"}, {"preset", "native"}}); });
  EXPECT_CONTAINS(message, "lora_rank=128 for lora-ft and 16 for o-lora; run them apart, or set lora_rank");
  const auto both =
      resolved({{"method", "[lora-ft, o-lora]"}, {"preset", "native"}, {"lora_rank", "8"}, {"lora_alpha", "16"}});
  EXPECT_EQ(both.run.lora_rank, 8);
  EXPECT_CONTAINS(message_of([] {
                    resolved({{"method", "vanilla"}, {"preset", "native"}});
                  }),
                  "vanilla has no settings");
  EXPECT_CONTAINS(message_of([] { resolved({{"preset", "natve"}}); }), "did you mean");
}

TEST(Preset, AStoredRunNeedsItNoMore) {
  const auto config = resolved({{"method", "o-lora"}, {"preset", "native"}, {"output_dir", "x"}});
  const auto again = resolve_run(parse_yaml_options(yaml_text(config.manifest()), "stored"));
  EXPECT_EQ(again.manifest(), config.manifest());
  EXPECT_FALSE(config.shared_manifest().contains("preset"));
}

TEST(RunSites, AllLinearsAndTheProjectorApart) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto model = load_backbone(folder / "model");
  std::vector<std::unique_ptr<Method>> methods;
  methods.push_back(make_method("o-lora"));
  const auto layout = [&](const std::vector<std::pair<std::string, std::string>>& values, int stage) {
    return stage_layout(methods, {"o-lora"}, model->adaptable(), plain_layout(model->all_sites(), resolved(values).run),
                        stage);
  };
  const auto usual = layout({}, 1);
  ASSERT_EQ(usual.size(), 1u);
  EXPECT_EQ(usual[0].sites.size(), 6u);  // queries and values of two layers, two linears of the projector
  EXPECT_EQ(layout({{"lora_sites", "all"}}, 1)[0].sites.size(), 16u);
  const auto full = layout({{"lora_sites", "all"}, {"projector", "full"}, {"projector_learning_rate", "3e-5"}}, 2);
  ASSERT_EQ(full.size(), 2u);
  EXPECT_EQ(full[0].name, "stage-2");
  EXPECT_EQ(full[0].sites.size(), 14u);
  EXPECT_EQ(full[1].name, "projector");
  ASSERT_EQ(full[1].sites.size(), 2u);
  EXPECT_TRUE(full[1].sites[0].full);
  EXPECT_EQ(full[1].sites[0].learning_rate, 3e-5);
  const auto frozen = layout({{"projector", "frozen"}}, 1);
  ASSERT_EQ(frozen.size(), 1u);
  EXPECT_EQ(frozen[0].sites.size(), 4u);
}

TEST(RunSites, AWholeProjectorIsTrainedResumedAndAudited) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = [&](const std::string& out) {
    auto list = small_run(folder / "model", folder / out, "lora-ft");
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
             {"preset", "native"}, {"lora_rank", "4"}, {"stream.tasks", "2"}, {"save_steps", "1"}})
      list.push_back({key, value, "test"});
    return list;
  };
  const auto straight = run_small(options("straight"))[0];
  plan_stop(SIGINT, StopPlace::step);
  EXPECT_NE(message_of([&] { run_small(options("stopped")); }), "");
  forget_stop();
  expect_same_files(straight, run_small(options("stopped"), true)[0]);
  EXPECT_TRUE(audit_run(straight).passed());
  // Rank 4 on seven linears of two layers (width 32, MLP 64): 4 x 2 x 544; two whole linears of 32 x 32.
  const auto metrics = nlohmann::json::parse(read_text(straight + "/metrics.json"));
  EXPECT_EQ(metrics["cost"]["adapter_parameters"].get<int64_t>(), 4 * 2 * 544 + 2 * 32 * 32);
}

TEST(RunSites, ATeacherNeedsAnAdapterAlone) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "lwf");
  list.push_back({"projector", "full", "test"});
  EXPECT_CONTAINS(message_of([&] { run_small(list); }), "set projector=adapter or frozen");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace asr
