// asr admit and asr tune --protocol on runs that are fabricated with a score function of ours, so that what they choose
// and report is known; what is missing is listed, run or refused.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>

#include "tests/support/program.h"
#include "tests/support/run_folder.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

class Plans : public testing::Test {
 protected:
  void SetUp() override {
    write_small_model(folder / "model");
    std::string yaml;
    for (const auto& a : small_run(folder / "model", folder / "out", "vanilla")) yaml += a.key + ": " + a.value + "\n";
    write_text(folder / "c.yaml", yaml);
  }

  struct Planned {
    std::string split, label, point;
    int64_t seed;
  };
  // A complete run of a plan, whose AP is `ap` and whose MFT lies `forgotten` above.
  void fabricate(const Planned& planned, double ap, double forgotten = 1) {
    const auto& [split, label, point, seed] = planned;
    FabricatedRun run;
    run.method = label == "joint" ? "joint" : "vanilla";
    run.label = split == "tune" ? label + ":" + point : label;
    if (admit) run.label = label + ":" + point;
    run.seed = seed;
    run.log = run.predictions = run.analysis = false;
    run.zero_shot = {10, 20, 30};
    const double first = ap + forgotten, left = ap - forgotten / 2;
    run.rows = {{first}, {ap, first}, {left, left, first}};
    if (run.joint()) run.rows = {{ap, ap, ap}};
    write_run(cat(folder / "out", "/", split, "/", label, "/", point, "/seed-", seed), run);
  }
  static std::string point(double rate, const std::string& key, double value) {
    return cat("learning_rate=", rate, ",", key, "=", value);
  }

  TemporaryFolder folder;
  bool admit = false;
};

// Vanilla is best at 0.001 and two epochs, joint at 0.01, which lies beyond the grid of two rates.
TEST_F(Plans, AdmitChoosesOnTuneAndReportsOnTest) {
  admit = true;
  const std::vector<std::string> command = {
      "admit", folder / "c.yaml", "--rates", "0.0005,0.001,0.002,0.005", "--epochs",
      "1,2",   "--seeds",         "1,2",     "--tuning-seeds",           "1",
      "--json"};
  auto listed = command, resumed = command;
  listed.push_back("--list-only");
  resumed.push_back("--resume");
  const auto first = run_program(listed).out;
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 16) << first;
  for (const double rate : {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02})
    for (const double epochs : {1, 2}) {
      const auto name = point(rate, "num_train_epochs", epochs);
      if (rate < 0.01) fabricate({"tune", "vanilla", name, 1}, rate == 0.001 ? 20 + epochs : 12, 4000 * rate + epochs);
      fabricate({"tune", "joint", name, 1}, rate == 0.01 ? 60 + epochs : 50 + 100 * rate);
    }
  const auto lines = run_program(listed).out;  // the reported runs: vanilla, joint, vanilla at its best MFT
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 6) << lines;
  EXPECT_CONTAINS(lines, "eval_split=test");
  for (const int64_t seed : {1, 2}) {
    fabricate({"test", "vanilla", point(0.001, "num_train_epochs", 2), seed}, 18 + seed, 21);
    fabricate({"test", "vanilla", point(0.005, "num_train_epochs", 2), seed}, 20, 30 + seed);
    fabricate({"test", "joint", point(0.01, "num_train_epochs", 2), seed}, 48 + seed);
  }
  const auto done = run_program(resumed);
  ASSERT_EQ(done.status, 0) << done.error;
  const auto result = done.json();
  EXPECT_EQ(result["vanilla"]["chosen"], "learning_rate=0.001,num_train_epochs=2");
  EXPECT_EQ(result["joint"]["chosen"], "learning_rate=0.01,num_train_epochs=2");
  EXPECT_EQ(result["best_mft"]["chosen"], "learning_rate=0.005,num_train_epochs=2");
  EXPECT_NEAR(result["zero_shot"]["mean"].get<double>(), 20, 1e-9);
  EXPECT_NEAR(result["joint_over_vanilla"]["mean"].get<double>(), 30, 1e-9);
  EXPECT_NEAR(result["joint_over_zero_shot"]["mean"].get<double>(), 29.5, 1e-9);
  EXPECT_NEAR(result["best_mft"]["MFT"]["mean"].get<double>(), 20 + 31.5, 1e-9);
  EXPECT_EQ(result["verdict"], "admitted");
  EXPECT_EQ(result["runs"].get<int>(), 8 + 12 + 6);
  fabricate({"test", "joint", point(0.01, "num_train_epochs", 2), 1}, 25);
  fabricate({"test", "joint", point(0.01, "num_train_epochs", 2), 2}, 25);
  resumed.erase(std::find(resumed.begin(), resumed.end(), "--json"));
  const auto refused = run_program(resumed);
  EXPECT_EQ(refused.status, 0) << refused.error;
  EXPECT_CONTAINS(refused.out, "not admitted: joint is +5.5 AP from vanilla, at least +8 is needed; joint is +5.0 AP");
}

TEST_F(Plans, BadInputIsOneLineAndRunsNothing) {
  const auto refused = [&](std::vector<std::string> more, const std::string& part) {
    more.insert(more.begin(), {"admit", folder / "c.yaml"});
    expect_refused(more, part);
  };
  refused({"--rates", "0.001"}, "a grid of one value");
  refused({"--rates", "0.001,0.001"}, "stands twice");
  refused({"--seeds", "1,1"}, "stands twice");
  refused({"--set", "stream.tasks=1"}, "has one task");
  refused({"--set", "output_dir="}, "output_dir is not set");
  refused({"--set", "learning_rat=1"}, "did you mean 'learning_rate'");
  expect_refused({"tune", folder / "c.yaml"}, "not neither");
  expect_refused({"tune", folder / "c.yaml", "--grid", "learning_rate=[0.001]"}, "a grid of one value");
  expect_refused({"tune", folder / "c.yaml", "--grid", "ewc.lambda=[1,2]", "--jobs", "2"}, "go with --protocol");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  std::filesystem::create_directories(folder / "out/tune");
  refused({}, "use --resume");
}

const char* const kSmallProtocol = R"(tuning_seeds: [101, 102]
test_seeds: [1, 2]
finalists: 1
rows:
  vanilla:
    method: vanilla
    rates: [0.001, 0.002]
    strength: num_train_epochs
    values: [1, 2]
  held:
    method: ewc
    set:
      ewc.accumulate: sum
    rates: [0.001, 0.002]
    strength: ewc.lambda
    values: [10, 100]
)";

TEST_F(Plans, ProtocolGoesStepByStepAndKeepsWhatIsDone) {
  write_text(folder / "p.yaml", kSmallProtocol);
  const std::vector<std::string> command = {"tune", folder / "c.yaml", "--protocol", folder / "p.yaml", "--json"};
  auto listed = command, resumed = command;
  listed.push_back("--list-only");
  resumed.push_back("--resume");
  const auto first = run_program(listed);
  EXPECT_EQ(std::count(first.out.begin(), first.out.end(), '\n'), 8) << first.error;
  EXPECT_CONTAINS(first.out, "--set ewc.accumulate=sum --set learning_rate=0.001 --set ewc.lambda=10 ");
  for (const double rate : {0.001, 0.002})
    for (const double value : {1, 2}) {
      fabricate({"tune", "vanilla", point(rate, "num_train_epochs", value), 101}, 30 - 1000 * rate + value);
      fabricate({"tune", "held", point(rate, "ewc.lambda", value == 1 ? 10 : 100), 101}, 20 + 1000 * rate + value);
    }
  const auto second = run_program(listed).out;  // the finalist of each row with the other tuning seed
  EXPECT_EQ(std::count(second.begin(), second.end(), '\n'), 2) << second;
  EXPECT_CONTAINS(second, "/tune/vanilla/learning_rate=0.001,num_train_epochs=2/seed-102");
  EXPECT_CONTAINS(second, "/tune/held/learning_rate=0.002,ewc.lambda=100/seed-102");
  fabricate({"tune", "vanilla", point(0.001, "num_train_epochs", 2), 102}, 33);
  fabricate({"tune", "held", point(0.002, "ewc.lambda", 100), 102}, 22);
  const auto third = run_program(listed).out;
  EXPECT_EQ(std::count(third.begin(), third.end(), '\n'), 4) << third;
  EXPECT_CONTAINS(read_text(folder / "out/chosen.csv"), ",0.002,100,");
  for (const int64_t seed : {1, 2}) {
    fabricate({"test", "vanilla", point(0.001, "num_train_epochs", 2), seed}, 30 + seed);
    fabricate({"test", "held", point(0.002, "ewc.lambda", 100), seed}, 40 + seed);
  }
  const auto done = run_program(resumed);
  ASSERT_EQ(done.status, 0) << done.error;
  const auto rows = done.json()["rows"];
  EXPECT_EQ(rows[0]["chosen"], "learning_rate=0.001,num_train_epochs=2");
  EXPECT_NEAR(rows[0]["tune_AP"].get<double>(), (31 + 33) / 2.0, 1e-9);
  EXPECT_EQ(rows[1]["tune_runs"].get<int>(), 5);
  EXPECT_EQ(rows[1]["tests"][1]["AP"].get<double>(), 42);
  EXPECT_CONTAINS(rows[1]["edge"].get<std::string>(), "ewc.lambda at the high end");
  // Another setting takes over the choice: its runs are listed, the search is not.
  const auto other = run_program({"tune", folder / "c.yaml", "--protocol", folder / "p.yaml", "--list-only", "--chosen",
                                  folder / "out/chosen.csv", "--set", "output_dir=" + (folder / "other")});
  EXPECT_EQ(std::count(other.out.begin(), other.out.end(), '\n'), 4) << other.error;
  EXPECT_CONTAINS(other.out, "/other/test/held/learning_rate=0.002,ewc.lambda=100/seed-2");
  // One row alone leaves the others' lines as they are.
  const auto both = read_text(folder / "out/chosen.csv");
  auto one = resumed;
  one.insert(one.end(), {"--rows", "held"});
  ASSERT_EQ(run_program(one).status, 0);
  EXPECT_EQ(read_text(folder / "out/chosen.csv"), both);
  auto own = resumed;
  own.insert(own.end(), {"--chosen", folder / "out/chosen.csv"});
  expect_refused(own, "is this output_dir's own");
  EXPECT_EQ(read_text(folder / "out/chosen.csv"), both);
  const auto table = read_text(folder / "out/runs.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 2 * (5 + 2));
}

// What a table has of a plan is not run again; what it lacks is listed.
TEST_F(Plans, RunsOfATableCountAsDone) {
  write_text(folder / "p.yaml", kSmallProtocol);
  std::vector<std::string> rows;
  const auto add = [&](const std::string& label, double rate, double epochs, const std::string& strength, int64_t seed,
                       double ap) {
    const bool held = strength.rfind("ewc", 0) == 0, tested = seed < 100;
    rows.push_back(cat("world-10,tiny-S,\"", label, tested ? "" : cat(":learning_rate=", rate, ",", strength), "\",0,",
                       seed, ",", held ? "ewc" : "vanilla", ",1,", tested ? "test" : "tune", ",", rate, ",", epochs,
                       ",", strength, ".0,\"count,color\",1 ", ap, "; 2 ", ap, " ", ap));
  };
  const auto table = [&](const std::string& name) {
    std::string text =
        "stream,backbone,label,order,seed,method,replay_free,split,learning_rate,num_train_epochs,strength,tasks,"
        "matrix\n";
    for (const auto& row : rows) text += row + "\n";
    write_text(folder / name, text);
    return folder / name;
  };
  for (const double rate : {0.001, 0.002})
    for (const int value : {1, 2}) {
      add("vanilla", rate, value, cat("num_train_epochs=", value), 101, 30 - 1000 * rate + value);
      add("held", rate, 1, value == 1 ? "ewc.lambda=10" : "ewc.lambda=100", 101, 20 + 1000 * rate + value);
    }
  const auto plan = [&](const std::string& out, const std::string& runs, bool listed) {
    std::vector<std::string> command = {"tune",
                                        folder / "c.yaml",
                                        "--protocol",
                                        folder / "p.yaml",
                                        "--json",
                                        "--runs",
                                        runs,
                                        "--set",
                                        "output_dir=" + (folder / out)};
    if (listed) command.push_back("--list-only");
    return run_program(command);
  };
  const auto finalists = plan("one", table("search.csv"), true);
  EXPECT_EQ(std::count(finalists.out.begin(), finalists.out.end(), '\n'), 2) << finalists.out << finalists.error;
  EXPECT_CONTAINS(finalists.out, "/tune/held/learning_rate=0.002,ewc.lambda=100/seed-102");
  add("vanilla", 0.001, 2, "num_train_epochs=2", 102, 33);
  add("held", 0.002, 1, "ewc.lambda=100", 102, 22);
  add("vanilla", 0.001, 2, "num_train_epochs=2", 1, 31);
  add("vanilla", 0.001, 2, "num_train_epochs=2", 2, 32);
  add("held", 0.002, 1, "ewc.lambda=100", 1, 41);
  add("held", 0.001, 1, "ewc.lambda=100", 2, 42);  // of another point than the chosen one
  const auto tests = plan("two", table("most.csv"), true);
  EXPECT_EQ(std::count(tests.out.begin(), tests.out.end(), '\n'), 1) << tests.out << tests.error;
  EXPECT_CONTAINS(tests.out, "/test/held/learning_rate=0.002,ewc.lambda=100/seed-2");
  rows.back() = rows[rows.size() - 2];
  rows.back().replace(rows.back().find(",0,1,"), 5, ",0,2,");
  const auto listed = plan("three", table("all.csv"), true);
  ASSERT_EQ(listed.out.find("--set"), std::string::npos) << listed.out;  // nothing would be run
  const auto done = plan("four", folder / "all.csv", false);
  ASSERT_EQ(done.status, 0) << done.error;
  const auto found = done.json()["rows"];
  EXPECT_EQ(found[0]["chosen"], "learning_rate=0.001,num_train_epochs=2");
  EXPECT_NEAR(found[0]["tune_AP"].get<double>(), (31 + 33) / 2.0, 1e-9);
  EXPECT_EQ(found[1]["tests"][1]["AP"].get<double>(), 41);
  EXPECT_CONTAINS(read_text(folder / "four/chosen.csv"), "held,ewc,0.001 0.002,ewc.lambda,10 100,4,5,");
  expect_refused({"tune", folder / "c.yaml", "--protocol", folder / "p.yaml", "--runs", folder / "no.csv"}, "no.csv");
  expect_refused({"tune", folder / "c.yaml", "--grid", "ewc.lambda=[1,2]", "--runs", "a.csv"}, "go with --protocol");
}

// Killed while it runs, it goes on until every run of its plan is in the table.
TEST_F(Plans, AProtocolThatWasKilledGoesOn) {
  const std::string row = "rows:\n  vanilla:\n    method: vanilla\n    rates: [0.001, 0.002]\n";
  write_text(folder / "p.yaml", "tuning_seeds: [101]\ntest_seeds: [1, 2]\nfinalists: 1\nsearch: line\n" + row +
                                    "    strength: num_train_epochs\n    values: [2, 1]\n");
  const std::vector<std::string> command = {"tune",  folder / "c.yaml", "--protocol", folder / "p.yaml",
                                            "--set", "stream.tasks=2"};
  const auto first = point(0.001, "num_train_epochs", 1);
  const auto kept = folder / ("out/tune/vanilla/" + first + "/seed-101/vanilla:" + first + "-seed101/metrics.json");
  const pid_t child = start_program(command, folder / "errors");
  for (int i = 0; i < 6000 && !std::filesystem::exists(kept); ++i) usleep(10'000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(kept)) << read_text(folder / "errors");
  ASSERT_FALSE(std::filesystem::exists(folder / "out/chosen.csv")) << "it had ended before it was killed";
  expect_refused(command, "use --resume");
  auto resumed = command;
  resumed.push_back("--resume");
  const auto done = run_executable(resumed);
  ASSERT_EQ(done.status, 0) << done.error;
  const auto table = read_text(folder / "out/runs.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 3 + 2) << table;
}

// A row whose rates are done goes on to its strengths, whatever the other rows lack.
TEST_F(Plans, ALineListsStrengthsOnceARowsRatesAreDone) {
  write_text(folder / "p.yaml", std::string("search: line\n") + kSmallProtocol);
  const std::vector<std::string> listed = {"tune",   folder / "c.yaml", "--protocol", folder / "p.yaml",
                                           "--json", "--list-only"};
  const auto first = run_program(listed).out;
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 4) << first;
  EXPECT_CONTAINS(first, "/tune/held/learning_rate=0.001,ewc.lambda=100/seed-101");
  EXPECT_EQ(first.find("ewc.lambda=10/"), std::string::npos);
  for (const double rate : {0.001, 0.002})
    fabricate({"tune", "held", point(rate, "ewc.lambda", 100), 101}, 1000 * rate);
  fabricate({"tune", "held", point(0.001, "ewc.lambda", 10), 101}, 90);  // not on the line: never looked at
  const auto second = run_program(listed).out;
  EXPECT_EQ(std::count(second.begin(), second.end(), '\n'), 3) << second;  // two rates of vanilla
  EXPECT_CONTAINS(second, "/tune/held/learning_rate=0.002,ewc.lambda=10/seed-101");
  fabricate({"tune", "held", point(0.002, "ewc.lambda", 10), 101}, 1);
  for (const double rate : {0.001, 0.002})
    fabricate({"tune", "vanilla", point(rate, "num_train_epochs", 2), 101}, 30 - 1000 * rate);
  fabricate({"tune", "vanilla", point(0.001, "num_train_epochs", 1), 101}, 40);
  const auto third = run_program(listed).out;  // the finalists with the other tuning seed
  EXPECT_EQ(std::count(third.begin(), third.end(), '\n'), 2) << third;
  EXPECT_CONTAINS(third, "/tune/held/learning_rate=0.002,ewc.lambda=100/seed-102");
  EXPECT_CONTAINS(third, "/tune/vanilla/learning_rate=0.001,num_train_epochs=1/seed-102");
}

// A grid with finalists, searched as a line with its first tuning seed alone.
TEST_F(Plans, ABriefSearchIsALineWithOneSeed) {
  write_text(folder / "p.yaml", kSmallProtocol);
  const std::vector<std::string> listed = {"tune",    folder / "c.yaml", "--protocol", folder / "p.yaml",
                                           "--brief", "--json",          "--list-only"};
  const auto first = run_program(listed).out;
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 4) << first;
  EXPECT_EQ(first.find("seed-102"), std::string::npos);
  for (const double rate : {0.001, 0.002}) {
    fabricate({"tune", "held", point(rate, "ewc.lambda", 100), 101}, 1000 * rate);
    fabricate({"tune", "vanilla", point(rate, "num_train_epochs", 2), 101}, 1000 * rate);
  }
  const auto second = run_program(listed).out;
  EXPECT_EQ(std::count(second.begin(), second.end(), '\n'), 2) << second;
  fabricate({"tune", "held", point(0.002, "ewc.lambda", 10), 101}, 1);
  fabricate({"tune", "vanilla", point(0.002, "num_train_epochs", 1), 101}, 1);
  const auto third = run_program(listed).out;  // no finalists: the test
  EXPECT_EQ(third.find("/tune/"), std::string::npos) << third;
  EXPECT_CONTAINS(third, "/test/held/learning_rate=0.002,ewc.lambda=100/seed-");
}

// One run is missing, as after a kill; it is run, the others are left alone.
TEST_F(Plans, AMissingRunIsRunAndAnotherConfigurationRefused) {
  write_text(folder / "p.yaml", kSmallProtocol);
  const std::vector<std::string> command = {
      "tune", folder / "c.yaml", "--protocol", folder / "p.yaml", "--rows", "held", "--jobs",
      "2",    "--resume",        "--set",      "stream.tasks=2"};
  for (const double rate : {0.001, 0.002})
    for (const double lambda : {10, 100})
      fabricate({"tune", "held", point(rate, "ewc.lambda", lambda), 101}, 1000 * rate);
  fabricate({"tune", "held", point(0.002, "ewc.lambda", 10), 102}, 2);
  fabricate({"test", "held", point(0.002, "ewc.lambda", 10), 1}, 2);
  const auto done = run_executable(command);
  ASSERT_EQ(done.status, 0) << done.error;
  EXPECT_CONTAINS(done.error, "1 runs to do of 2");
  const auto place = folder / "out/test/held/learning_rate=0.002,ewc.lambda=10/seed-2/held-seed2/fingerprint.json";
  EXPECT_CONTAINS(read_text(place), "\"lambda\": 10");
  auto other = command;
  other.insert(other.end(), {"--set", "lora_rank=8"});
  expect_refused(other, "was made with lora_rank=16, now it is 8");
}

// Three rates of each on tune, the best of them with two seeds on test. Vanilla's best MFT, at 0.005, was not tested.
std::string small_results() {
  std::string out =
      "series,stream,backbone,label,order,seed,method,replay_free,split,learning_rate,num_train_epochs,tasks,matrix\n";
  const auto row = [&](const std::string& method, const std::string& rate, int64_t seed, const std::string& matrix) {
    const bool search = seed > 100;
    const auto name = search ? cat(method, ":learning_rate=", rate, ",num_train_epochs=1") : method;
    out += cat("short,world-hue,tiny-S,\"", name, "\",0,", seed, ",", method, ",1,", search ? "tune" : "test", ",",
               rate, ",1,\"a,b\",0 10 20; ", matrix, "\n");
  };
  row("vanilla", "0.001", 101, "1 50; 2 20 40");
  row("vanilla", "0.002", 101, "1 60; 2 20 50");
  row("vanilla", "0.005", 101, "1 70; 2 0 60");
  row("joint", "0.001", 101, "1 40 50");
  row("joint", "0.002", 101, "1 60 70");
  row("joint", "0.005", 101, "1 50 60");
  row("vanilla", "0.002", 1, "1 60; 2 20 50");
  row("vanilla", "0.002", 2, "1 60; 2 22 50");
  row("joint", "0.002", 1, "1 60 70");
  row("joint", "0.002", 2, "1 62 72");
  return out;
}

TEST(AdmitRuns, JudgesATableAndRunsNothing) {
  TemporaryFolder folder;
  const auto path = folder / "world.csv", series = path + ":short";
  write_text(path, small_results());
  const auto done = run_program({"admit", "--runs", series, "--json"});
  ASSERT_EQ(done.status, 0) << done.error;
  const auto result = done.json();
  EXPECT_EQ(result["stream"], "world-hue");
  EXPECT_EQ(result["vanilla"]["chosen"], "learning_rate=0.002,num_train_epochs=1");
  EXPECT_NEAR(result["joint_over_vanilla"]["mean"].get<double>(), 30.5, 1e-9);
  EXPECT_NEAR(result["joint_over_zero_shot"]["mean"].get<double>(), 51, 1e-9);
  EXPECT_EQ(result["best_mft"]["chosen"], "learning_rate=0.005,num_train_epochs=1");
  EXPECT_EQ(result["best_mft"]["split"], "tune");
  EXPECT_NEAR(result["best_mft_over_joint"]["mean"].get<double>(), -1, 1e-9);
  EXPECT_TRUE(result["best_mft_over_joint"]["low"].is_null());
  EXPECT_EQ(result["searched"][0]["rates"].size(), 3u);
  EXPECT_EQ(result["runs"].get<int>(), 10);
  EXPECT_EQ(result["verdict"], "admitted");
  const auto text = run_program({"admit", "--runs", series}).out;
  EXPECT_CONTAINS(text, "(10 runs of " + series + ", none made now)");
  EXPECT_CONTAINS(text, "searched vanilla: rates 0.001, 0.002, 0.005; epochs 1; 3 points, 3 runs, 1 tuning seed");
  EXPECT_CONTAINS(text, "vanilla, best MFT on tune");
  EXPECT_CONTAINS(text, "\nadmitted\n");
  const auto both = run_program({"admit", "--runs", series, "--runs", path, "--json"});
  EXPECT_EQ(both.json()["verdicts"].size(), 2u) << both.error;
  expect_refused({"admit"}, "not neither");
  expect_refused({"admit", folder / "c.yaml", "--runs", series}, "not both");
  expect_refused({"admit", "--runs", series, "--resume"}, "--resume: goes with a CONFIG");
  expect_refused({"admit", "--runs", path + ":shrt"}, "did you mean 'short'");
}

}  // namespace
}  // namespace asr
