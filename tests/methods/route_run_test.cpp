// A run of route from its first stage to the folder that it leaves: what is in it, and that it answers as the run did.
#include <filesystem>
#include <regex>

#include "backbones/base_precision.h"
#include "base/json.h"
#include "io/csv.h"
#include "io/safetensors.h"
#include "report/compare.h"
#include "report/figures.h"
#include "tests/methods/fake_runs.h"
#include "train/audit.h"

namespace asr {
namespace {

class RouteRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new TemporaryFolder;
    write_small_model(*place_ / "model");
    run_small(options());
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }
  static std::vector<Assignment> options() {
    auto out = small_run(*place_ / "model", *place_ / "out", "route");
    out.push_back({"stream.tasks", "2", "test"});
    out.push_back({"stream.val", "20", "test"});
    out.push_back({"stream.train", "160", "test"});
    out.push_back({"max_stage_steps", "2", "test"});
    return out;
  }
  static std::string folder() { return *place_ / "out/route"; }
  static TemporaryFolder* place_;
};
TemporaryFolder* RouteRun::place_ = nullptr;

TEST_F(RouteRun, LeavesAPeftFolderASlotThatAnswersAsTheRunDid) {
  for (const char* name : {"stage-01/adapter_config.json", "stage-01/adapter_model.safetensors",
                           "stage-02/adapter_model.safetensors", "route.safetensors", "asr_adapter.json"})
    EXPECT_TRUE(std::filesystem::exists(folder() + "/adapter/" + name)) << name;
  EXPECT_FALSE(std::filesystem::exists(folder() + "/adapter/asr_adapter.safetensors"));
  expect_answers_as_evaluated(options(), folder());
  const auto model = load_backbone(*place_ / "model");
  EXPECT_EQ(load_adapter(*model, folder() + "/adapter/stage-02").size(), 2 * model->sites().size());
  const auto audit = audit_run(folder());
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
}

TEST_F(RouteRun, CountsWhichSlotAnsweredWhichTask) {
  const auto lines = split_csv(read_text(folder() + "/routing.csv"), "routing.csv");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].fields, (std::vector<std::string>{"task", "stage-1", "stage-2", "base"}));
  for (size_t task = 0; task < 2; ++task) {
    std::vector<int> counts;
    for (size_t i = 1; i < 4; ++i) counts.push_back(std::stoi(lines[task + 1].fields[i]));
    EXPECT_EQ(counts[0] + counts[1] + counts[2], 20);
    EXPECT_GT(counts[task], 15);  // how many against what colour
    EXPECT_EQ(counts[2], 0);
  }
}

TEST_F(RouteRun, ShowsTheCountsInTheReport) {
  const auto runs = load_runs({*place_ / "out"});
  const auto compared = compare_runs(runs, {});
  ASSERT_EQ(compared.tables.size(), 1u);
  const auto figure = figure_routing(compared.tables[0]);
  EXPECT_CONTAINS(figure.html, "Which adapter answered, route");
  EXPECT_CONTAINS(figure.html, "why, for the least certain samples");
  EXPECT_CONTAINS(figure.csv, "route,samples of a task,count,stage-1,");
  EXPECT_CONTAINS(figure.csv, "route,probability for a sample,");
}

// Every line of the last stage has the slot that answered, and it is the likeliest of those with a probability.
TEST_F(RouteRun, PredictionsSayWhichSlotAndWhy) {
  const auto path = folder() + "/predictions/stage-02-task-01.jsonl";
  std::map<std::string, int> answered;
  for_each_json_line(path, [&](const nlohmann::json& line, const std::string& place) {
    const auto slots = line.at("slots").get<std::map<std::string, double>>();
    ASSERT_EQ(slots.size(), 2u) << place;
    EXPECT_NEAR(slots.at("stage-1") + slots.at("stage-2"), 1, 1.1e-4) << place;
    const auto slot = line.at("slot").get<std::string>();
    EXPECT_GE(slots.at(slot), 0.5) << place;
    ++answered[slot];
  });
  const auto counts = split_csv(read_text(folder() + "/routing.csv"), "routing.csv")[1].fields;
  EXPECT_EQ(std::to_string(answered["stage-1"]), counts[1]);
  EXPECT_EQ(std::to_string(answered["stage-2"]), counts[2]);
}

TEST_F(RouteRun, TheAuditRefusesOtherWordsAndNumbersThere) {
  const auto path = folder() + "/predictions/stage-02-task-01.jsonl";
  const auto before = read_text(path);
  const auto violations_of = [&](const char* from, const char* to) {
    write_text(path, std::regex_replace(before, std::regex(from), to, std::regex_constants::format_first_only));
    return audit_run(folder()).to_json().dump();
  };
  EXPECT_CONTAINS(violations_of(R"("slot":"stage-.")", R"("slot":"a cat")"), "'slot' is no choice");
  EXPECT_CONTAINS(violations_of(R"("stage-1":[0-9.e-]+)", R"("stage-1":0.123456789)"), "'slots' is no choice");
  EXPECT_CONTAINS(violations_of(R"("slots":\{)", R"("slots":{"a cat":0.5,)"), "'slots' is no choice");
  write_text(path, before);
}

TEST_F(RouteRun, RefusesOtherAdaptersAndASingleTask) {
  const auto message = [](const std::string& method) {
    return message_of([&] { run_small(small_run(*place_ / "model", *place_ / method, method)); });
  };
  EXPECT_CONTAINS(message("route+o-lora"), "methods route and o-lora both lay out the adapters");
  EXPECT_CONTAINS(message("lwf+route"), "lwf holds on to adapters that are trained through all stages, and route");
  for (const std::string method : {"route", "hide-llava", "branchlora", "d-mole", "pclr"}) {
    auto alone = small_run(*place_ / "model", *place_ / ("alone-" + method), method);
    alone.push_back({"stream.tasks", "1", "test"});
    EXPECT_CONTAINS(message_of([&] { run_small(alone); }), "this stream has one task; give it a stream of several");
  }
}

// Moments of single heads in a run: stored, audited, and read again by what answers from its folder.
TEST_F(RouteRun, KeepsHeadsApartWhereAsked) {
  auto list = options();
  list.push_back({"output_dir", *place_ / "heads", "test"});
  list.push_back({"route.keys", "[spectra]", "test"});
  list.push_back({"route.heads", "kept", "test"});
  list.push_back({"route.tap_layers", "2", "test"});
  const auto run = run_small(list)[0];
  expect_answers_as_evaluated(list, run);
  const auto audit = audit_run(run);
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  const auto file = read_safetensors(run + "/adapter/route.safetensors");
  int64_t pairs = 0;
  for (const auto& tensor : file.tensors)
    if (tensor.name.find("scatter") != std::string::npos) pairs = tensor.shape.at(1);
  EXPECT_EQ(pairs, 2 * 2 * 27 * 28 / 2);  // layers x heads, a triangle each
}

// 24 samples a stage, 96 numbers of a key: said, and their covariance is still of use.
TEST_F(RouteRun, SaysThatAStageHasFewerSamplesThanAKeyHasNumbers) {
  auto list = small_run(*place_ / "model", *place_ / "few", "route");
  list.push_back({"stream.tasks", "2", "test"});
  list.push_back({"max_stage_steps", "1", "test"});
  testing::internal::CaptureStderr();
  const auto run = run_small(list)[0];
  EXPECT_CONTAINS(testing::internal::GetCapturedStderr(), "stage 1: 24 samples for 96 numbers of a key");
  const auto means = load_tensor(read_safetensors(run + "/adapter/route.safetensors"), "method.route.mean");
  EXPECT_TRUE(at::isfinite(means).all().item<bool>());
  EXPECT_TRUE(audit_run(run).passed());
}

// The same questions about pictures whose colours are swapped: their words tell no stage from another.
TEST_F(RouteRun, LooksFurtherWhereItsKeyTellsNothing) {
  auto list = options();
  for (const auto& [key, value] :
       {std::pair{"output_dir", *place_ / "further"}, std::pair{"stream.name", std::string("world-hue")},
        std::pair{"route.keys", std::string("[tokens]")}, std::pair{"route.further", std::string("[states]")}})
    list.push_back({key, value, "test"});
  testing::internal::CaptureStderr();
  const auto run = run_small(list)[0];
  EXPECT_CONTAINS(testing::internal::GetCapturedStderr(), "with states, which answers look at from now on");
  const auto lines = split_csv(read_text(run + "/routing.csv"), "routing.csv");
  for (size_t task = 0; task < 2; ++task) EXPECT_GT(std::stoi(lines[task + 1].fields[task + 1]), 17) << task;
  expect_answers_as_evaluated(list, run);
  const auto audit = audit_run(run);
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  EXPECT_CONTAINS(message_of([&] {
                    list.push_back({"route.further", "[]", "test"});
                    run_small(list, /*resume=*/true);
                  }),
                  "route.further");
}

TEST_F(RouteRun, LooksNoFurtherThanItMust) {
  auto list = options();
  list.push_back({"output_dir", *place_ / "near", "test"});
  list.push_back({"route.further", "[late]", "test"});
  testing::internal::CaptureStderr();
  const auto run = run_small(list)[0];
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("answers look at"), std::string::npos) << said;
  expect_answers_as_evaluated(list, run);
  // Answers, and what they were chosen by, are those of a run that knows of no further parts.
  const auto text_of = [](const std::string& folder) {
    return read_text(folder + "/predictions/stage-02-task-01.jsonl");
  };
  EXPECT_EQ(text_of(run), text_of(folder()));
}

TEST_F(RouteRun, RefusesAnotherBase) {
  auto other = small_model();
  {
    at::NoGradGuard no_grad;
    other->token_embedding().mul_(1.5);
  }
  other->save(*place_ / "other");
  const auto model = load_backbone(*place_ / "other");
  const auto message = message_of([&] { SlotAdapter(*model, folder() + "/adapter"); });
  EXPECT_CONTAINS(message, "the moments that route keeps are of other keys: weights was");
  EXPECT_CONTAINS(message, "use the base, precision and route options of the run that made them");
}

// Moments of plain weights are none of weights in fewer bits, nor the other way round.
TEST_F(RouteRun, RefusesAnotherFormatOfTheWeights) {
  const auto coarse = load_backbone(*place_ / "model");
  ASSERT_GT(keep_weights_in(*coarse, WeightFormat::fp8), 0);
  EXPECT_CONTAINS(message_of([&] { SlotAdapter(*coarse, folder() + "/adapter"); }),
                  "format was not given and is \"fp8\"");
  auto few_bits = options();
  for (const auto& [key, value] : {std::pair{"base_precision", "fp8"}, std::pair{"max_stage_steps", "1"}})
    few_bits.push_back({key, value, "test"});
  few_bits.push_back({"output_dir", *place_ / "few_bits", "test"});
  run_small(few_bits);
  const auto plain = load_backbone(*place_ / "model");
  EXPECT_CONTAINS(message_of([&] { SlotAdapter(*plain, *place_ / "few_bits/route/adapter"); }),
                  "format was \"fp8\" and is not given");
}

TEST_F(RouteRun, ResumesOnlyWithTheSameKeys) {
  auto changed = options();
  changed.push_back({"route.layer", "2", "test"});
  EXPECT_NE(message_of([&] { run_small(changed, /*resume=*/true); }), "");
}

}  // namespace
}  // namespace asr
