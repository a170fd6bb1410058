// asr doctor and asr tune as a user meets them; asr forward and asr generate on a reference model.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "tests/support/program.h"
#include "tests/support/reference_models.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

void write_config(const TemporaryFolder& folder, const std::string& method) {
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", method)) yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml);
}

TEST(DoctorCommand, SaysWhatWouldStopARun) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "vanilla");
  const auto good = run_program({"doctor", folder / "c.yaml", "--json", "--images", "2"});
  ASSERT_EQ(good.status, 0) << good.error;
  EXPECT_TRUE(good.json()["passed"].get<bool>());
  const auto lost = run_program({"doctor", folder / "c.yaml", "--set", "model_name_or_path=./nowhere.safetensors"});
  EXPECT_EQ(lost.status, 2);
  EXPECT_CONTAINS(lost.out, "nowhere.safetensors");
  const auto typo = run_program({"doctor", folder / "c.yaml", "--set", "learning_rat=1"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_CONTAINS(typo.out, "did you mean 'learning_rate'");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

// Lines of the table, without the program's message.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

nlohmann::json check_named(const nlohmann::json& report, const std::string& name) {
  for (const auto& check : report["checks"])
    if (check["check"].get<std::string>() == name) return check;
  return {{"verdict", "missing"}, {"detail", ""}};
}

TEST(DoctorCommand, AsksMethodsOfTheStream) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", "[vanilla, route]"))
    yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml);
  const auto report = run_program({"doctor", folder / "c.yaml", "--set", "stream.tasks=1", "--json"});
  const auto line = check_named(report.json(), "method route");
  EXPECT_EQ(line["verdict"].get<std::string>(), "FAILS");
  EXPECT_CONTAINS(line["detail"].get<std::string>(), "this stream has one task");
  EXPECT_EQ(run_program({"doctor", folder / "c.yaml", "--set", "stream.tasks=2", "--json"}).status, 0);
}

// What a method refuses leaves nothing behind, so that the corrected command runs.
TEST(RunCommand, ARunThatCannotBeginLeavesNoFolder) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "route");
  for (const std::string wrong : {"route.keys=[state]", "route.layer=30"}) {
    const auto refused = run_program({"run", folder / "c.yaml", "--set", wrong});
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_FALSE(std::filesystem::exists(folder / "run")) << wrong;
  }
  EXPECT_EQ(run_program({"doctor", folder / "c.yaml", "--set", "route.keys=[state]"}).status, 2);
  for (const std::string wrong : {"geometry.layer=9", "attention.layers=9"}) {
    const auto examined = run_program({"doctor", folder / "c.yaml", "--set", "stream.tasks=2", "--set", wrong});
    EXPECT_EQ(examined.status, 2) << wrong;
    EXPECT_CONTAINS(examined.out, wrong + " but the model has 2 layers");
  }
  EXPECT_EQ(run_program({"run", folder / "c.yaml", "--set", "stream.tasks=2"}).status, 0);
  expect_refused({"run", folder / "c.yaml", "--set", "route.keys=[state]", "--set", "stream.tasks=2", "--resume"},
                 "route.keys");
  EXPECT_TRUE(std::filesystem::exists(folder / "run/route/metrics.json"));
}

// Two tasks of the same rows: the second would hardly be asked.
TEST(RunCommand, RouteSaysThatTwoStagesLookAlike) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto tasks = nlohmann::json::array();
  for (const std::string task : {"a", "b"}) {
    std::string rows;
    for (int i = 0; i < 12; ++i) {
      const auto picture = std::to_string(i) + ".png";
      write_grey_picture(folder / picture, 20 * i);
      rows += nlohmann::json{{"id", i}, {"image", picture}, {"question", "is it?"}, {"answer", "yes"}}.dump() + "\n";
    }
    for (const std::string split : {".train.jsonl", ".val.jsonl"}) write_text(folder / (task + split), rows);
    tasks.push_back({{"name", task}, {"files", {{"train", task + ".train.jsonl"}, {"val", task + ".val.jsonl"}}}});
  }
  write_text(folder / "stream.json", nlohmann::json{{"tasks", tasks}}.dump());
  write_text(folder / "c.yaml", "model_name_or_path: " + (folder / "model") + "\noutput_dir: " + (folder / "run") +
                                    "\nstream:\n  name: manifest\n  path: " + folder.path() +
                                    "\nmethod: route\nattention.layers: 2\nanalysis.overlays: 0\n");
  const auto outcome = run_program({"run", folder / "c.yaml"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_CONTAINS(outcome.error, "stage 2: its key names 50 % of its own samples, and stage 1 takes 50 %");
}

// Of every task: here the second has none.
TEST(DoctorCommand, AsksRoutersForPictures) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_grey_picture(folder / "grey.png", 90);
  auto tasks = nlohmann::json::array();
  for (const std::string task : {"seen", "read"}) {
    nlohmann::json row = {{"id", task}, {"question", "is it?"}, {"answer", "yes"}};
    if (task == "seen") row["image"] = "grey.png";
    for (const std::string split : {".train.jsonl", ".val.jsonl"}) write_text(folder / (task + split), row.dump());
    tasks.push_back({{"name", task}, {"files", {{"train", task + ".train.jsonl"}, {"val", task + ".val.jsonl"}}}});
  }
  write_text(folder / "stream.json", nlohmann::json{{"tasks", tasks}, {"text_only", true}}.dump());
  write_text(folder / "c.yaml", "model_name_or_path: " + (folder / "model") + "\noutput_dir: " + (folder / "run") +
                                    "\nstream:\n  name: manifest\n  path: " + folder.path() +
                                    "\nmethod: [route, hide-llava, branchlora]\nattention.layers: 2\n");
  const auto report = run_program({"doctor", folder / "c.yaml", "--json"}).json();
  EXPECT_EQ(check_named(report, "method route")["verdict"], "missing") << "it may choose by words alone";
  for (const std::string method : {"hide-llava", "branchlora"}) {
    const auto line = check_named(report, "method " + method);
    EXPECT_EQ(line["verdict"], "FAILS");
    EXPECT_CONTAINS(line["detail"].get<std::string>(), "no sample of read has a picture");
    const auto run = run_program({"run", folder / "c.yaml", "--set", "method=" + method});
    EXPECT_EQ(run.status, 2);
    EXPECT_CONTAINS(run.error, "no sample of read has a picture");
  }
}

TEST(DoctorCommand, EstimatesMemoryAndTime) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "[vanilla, asr]");
  const auto report = run_program({"doctor", folder / "c.yaml", "--json", "--tflops", "0.001"}).json();
  const auto& estimate = report["estimate"];
  EXPECT_GT(estimate["memory_bytes"]["peak"].get<double>(), 1e8);
  EXPECT_EQ(estimate["methods"].size(), 2u);
  EXPECT_EQ(estimate["methods"][0]["steps"].get<int>(), 9);  // three tasks of 24 samples in batches of 8
  EXPECT_EQ(estimate["answers"].get<double>(), 3 * 6 / 2 * 8);
  EXPECT_EQ(estimate["methods"][0]["reference_seconds"].get<double>(), 0);
  EXPECT_GT(estimate["methods"][1]["reference_seconds"].get<double>(), 0);
  EXPECT_CONTAINS(estimate["machine"]["assumption"].get<std::string>(), "--tflops");
}

TEST(DoctorCommand, FitsTheTerminal) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "vanilla");
  setenv("COLUMNS", "80", 1);
  const auto table = run_program({"doctor", folder / "c.yaml", "--images", "0"});
  unsetenv("COLUMNS");
  EXPECT_EQ(table.status, 0) << table.error;
  for (const auto& line : lines_of(table.out))
    if (line.find('/') == std::string::npos) {  // a path is never broken
      EXPECT_LE(line.size(), 80u) << line;
    }
}

TEST(DoctorCommand, FindsAPictureThatCannotBeRead) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  ASSERT_EQ(run_program({"world", "export", "--stream", "world-10", "-o", folder / "world", "--train", "30", "--val",
                         "4", "--size", "32"})
                .status,
            0);
  std::string picture;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "world"))
    if (entry.path().extension() == ".png") picture = std::max(picture, entry.path().string());
  ASSERT_FALSE(picture.empty());
  const auto bytes = read_text(picture);
  write_text(picture, bytes.substr(0, bytes.size() / 2));
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", "vanilla"))
    if (a.key.compare(0, 7, "stream.") != 0) yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml + "stream:\n  name: manifest\n  path: " + (folder / "world") + "\n");
  const auto all = run_program({"doctor", folder / "c.yaml", "--images", "all"});
  EXPECT_EQ(all.status, 2);
  EXPECT_CONTAINS(all.out, "1 bad rows, the first: ");
  EXPECT_CONTAINS(all.out, std::filesystem::path(picture).filename().string());
  EXPECT_EQ(std::count(all.error.begin(), all.error.end(), '\n'), 1) << all.error;
  const auto none = run_program({"doctor", folder / "c.yaml", "--images", "0"});
  EXPECT_EQ(none.status, 0) << none.out;
  expect_refused({"doctor", folder / "c.yaml", "--images", "some"}, "give one, or all");
}

TEST(DoctorCommand, ComparesCountsWithThePublishedOnes) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  std::filesystem::create_directory(folder / "source");
  const std::string head = "video,frame_count,width,height,question,answer,qid,type,bigCate\n";
  for (const std::string split : {"train", "val", "test"}) {
    std::string rows = head;
    int video = 0;
    for (const std::string type : {"CW", "TN", "TC", "DL", "DB", "DC", "DO", "CH"})
      rows += split + std::to_string(++video) + ",9,64,64,what is it,a dog,0," + type + ",1\n";
    write_text(folder / ("source/" + split + ".csv"), rows);
  }
  const auto prepared =
      run_program({"prepare", "vqacl:nextqa", "--source", folder / "source", "-o", folder / "stream", "--no-images"});
  ASSERT_EQ(prepared.status, 0) << prepared.error;
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", "vanilla"))
    if (a.key.compare(0, 7, "stream.") != 0) yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml + "stream:\n  name: vqacl\n  path: " + (folder / "stream") + "\n");
  const auto report = run_program({"doctor", folder / "c.yaml", "--images", "0", "--json"});
  EXPECT_EQ(report.status, 0) << report.out;
  const auto line = check_named(report.json(), "counts CW");
  EXPECT_EQ(line["verdict"].get<std::string>(), "WARNING");
  EXPECT_CONTAINS(line["detail"].get<std::string>(), "13552");
}

TEST(DoctorCommand, PlansThePapersSettingsWithoutTheirFiles) {
  const std::string root = ASR_SOURCE_DIR "/configs/";
  for (const std::string setting : {"vqav2-10", "vqacl", "nextqa", "clt-vqa", "coin", "ucit"}) {
    const auto report =
        run_program({"doctor", root + "paper/" + setting + ".yaml", root + "backbones/llava-1.5-7b.yaml", "--assume",
                     "--set", "output_dir=/tmp/none", "--json"});
    EXPECT_EQ(report.status, 0) << setting << report.out;
    EXPECT_EQ(check_named(report.json(), "model")["verdict"].get<std::string>(), "assumed") << setting;
    EXPECT_EQ(check_named(report.json(), "stream")["verdict"].get<std::string>(), "assumed") << setting;
    const double one = report.json()["estimate"]["seconds"].get<double>();
    EXPECT_GT(one, 3600) << setting;
    if (setting != "coin") continue;
    // TextVQA (34,602 samples) takes five epochs, and OCR-VQA's five are cut at 50,000 steps of 16.
    const auto vanilla = report.json()["estimate"]["methods"][0];
    EXPECT_EQ(vanilla["steps"].get<int>(), 796 + 10814 + 8115 + 4509 + 1283 + 3493 + 5174 + 50000);
  }
  expect_refused({"doctor", root + "paper/coin.yaml", "--gpu", "A101"}, "A101");
}

// No file can be written to /proc, and no byte is free there: as on a full disk.
TEST(DoctorCommand, AFullDiskStopsARunButNoPlan) {
  const std::string root = ASR_SOURCE_DIR "/configs/";
  const auto planned = run_program({"doctor", root + "paper/coin.yaml", root + "backbones/llava-1.5-7b.yaml",
                                    "--assume", "--set", "output_dir=/proc/none", "--json"});
  EXPECT_EQ(planned.status, 0) << planned.out;
  EXPECT_EQ(check_named(planned.json(), "output_dir")["verdict"].get<std::string>(), "assumed");
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "vanilla");
  const auto here = run_program({"doctor", folder / "c.yaml", "--set", "output_dir=/proc/none", "--json"});
  EXPECT_EQ(here.status, 2) << here.out;
  const auto disk = check_named(here.json(), "output_dir");
  EXPECT_EQ(disk["verdict"].get<std::string>(), "FAILS");
  EXPECT_CONTAINS(disk["detail"].get<std::string>(), ", 0 B free here");
}

TEST(DoctorCommand, PlansThePapersSettingsOnEveryBackbone) {
  const std::string root = ASR_SOURCE_DIR "/configs/";
  int plans = 0;
  for (const auto& setting : std::filesystem::directory_iterator(root + "paper"))
    for (const auto& backbone : std::filesystem::directory_iterator(root + "backbones")) {
      const auto report = run_program({"doctor", setting.path().string(), backbone.path().string(), "--assume", "--set",
                                       "output_dir=/tmp/none", "--json"});
      EXPECT_EQ(report.status, 0) << setting.path() << " " << backbone.path() << report.out;
      ++plans;
    }
  EXPECT_GE(plans, 36);
}

// Bytes that a run of the program holds at its largest.
double peak_of(const std::vector<std::string>& arguments) {
  rusage after{};
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), 1);
    dup2(open("/dev/null", O_WRONLY), 2);
    std::vector<char*> list = {const_cast<char*>(ASR_PROGRAM)};
    for (const auto& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
    list.push_back(nullptr);
    execv(ASR_PROGRAM, list.data());
    _exit(127);
  }
  int status = 0;
  wait4(child, &status, 0, &after);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 1024.0 * static_cast<double>(after.ru_maxrss);
}

// One step of 128 samples, so that the activations are most of what is held.
TEST(DoctorCommand, TheMemoryOfARunIsAsEstimated) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers need memory of their own";
  TemporaryFolder folder;
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 500; ++i) texts.push_back(world::pretraining_sample(i).question.text);
  TinyBackbone::random(tiny_config("tiny", "S"), WordTokenizer::from_texts(texts), 3)->save(folder / "model");
  for (const std::string recompute : {"no", "yes"}) {
    std::string yaml;
    for (const auto& a : small_run(folder / "model", folder / recompute, "vanilla"))
      yaml += a.key + ": " + a.value + "\n";
    write_text(folder / "c.yaml", yaml);
    std::vector<std::string> arguments = {folder / "c.yaml"};
    for (const std::string set :
         {"stream.tasks=1", "stream.train=128", "stream.val=4", "stream.image_size=64", "memory.samples=8",
          "per_device_eval_batch_size=4", "per_device_train_batch_size=128"}) {
      arguments.push_back("--set");
      arguments.push_back(set);
    }
    arguments.push_back("--set");
    arguments.push_back("gradient_checkpointing=" + recompute);
    auto doctor = arguments, run = arguments;
    doctor.insert(doctor.begin(), "doctor");
    doctor.push_back("--json");
    run.insert(run.begin(), "run");
    const auto report = run_executable(doctor);  // which sees how much the program alone holds
    ASSERT_EQ(report.status, 0) << report.out;
    const auto memory = report.json()["estimate"]["memory_bytes"];
    const double said = memory["peak"].get<double>(), is = peak_of(run);
    EXPECT_GT(said, 0.7 * is) << recompute << ": said " << said << ", is " << is << memory;
    EXPECT_LT(said, 1.5 * is) << recompute << ": said " << said << ", is " << is << memory;
    std::cout << "gradient_checkpointing=" << recompute << ": estimated " << said / 1e6 << " MB, held " << is / 1e6
              << " MB\n";
  }
}

TEST(TuneCommand, WritesTheBestPoint) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "ewc");
  const std::vector<std::string> command = {"tune",  folder / "c.yaml", "--grid", "ewc.lambda=[1, 100]",
                                            "--set", "stream.tasks=2",  "--json"};
  const auto tuned = run_program(command);
  ASSERT_EQ(tuned.status, 0) << tuned.error;
  EXPECT_EQ(tuned.json()["points"].size(), 2u);
  EXPECT_CONTAINS(tuned.error, "tune: point 2 of 2, ewc.lambda=100; best so far");
  EXPECT_CONTAINS(read_text(folder / "run/tuned.yaml"), "ewc.lambda: ");
  const auto table = read_text(folder / "run/tune.csv");
  EXPECT_EQ(lines_of(table).size(), 3u);

  // Again: refused at once; with --resume nothing is trained twice, and a larger grid adds its points.
  expect_refused(command, "exists already; use --resume");
  const auto before = std::filesystem::last_write_time(folder / "run/ewc.lambda=1/ewc/metrics.json");
  const auto more = run_program(
      {"tune", folder / "c.yaml", "--grid", "ewc.lambda=[1, 100, 3]", "--set", "stream.tasks=2", "--resume"});
  ASSERT_EQ(more.status, 0) << more.error;
  EXPECT_EQ(std::filesystem::last_write_time(folder / "run/ewc.lambda=1/ewc/metrics.json"), before);
  EXPECT_EQ(lines_of(read_text(folder / "run/tune.csv")).size(), 4u);
  EXPECT_CONTAINS(more.out, "chosen: ewc.lambda=");
  std::filesystem::remove_all(folder / "run/ewc.lambda=100");  // as if that point had not been reached
  EXPECT_EQ(
      run_program({"tune", folder / "c.yaml", "--grid", "ewc.lambda=[1, 100]", "--set", "stream.tasks=2", "--resume"})
          .status,
      0);
}

TEST(TuneCommand, ABadGridIsOneLineAndTrainsNothing) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "ewc");
  const auto refused = [&](const std::string& grid, const std::string& part) {
    expect_refused({"tune", folder / "c.yaml", "--grid", grid}, part);
  };
  refused("ewc.lambda=1", "give a list");
  refused("ewc.lambda", "ewc.lambda");
  refused("ewc.lambda=[]", "give a list");
  refused("ewc.lambda=[1,,2]", "a value is empty");
  refused("ewc.lambda=[1,1]", "stands twice");
  refused("ewc.lambda=[1,x]", "ewc.lambda");
  refused("ewc.lamda=[1,2]", "did you mean 'ewc.lambda'");
  refused("lwf.weight=[1,2]", "no method of this run reads it");
  refused("output_dir=[a,b]", "cannot be tuned");
  expect_refused({"tune", folder / "c.yaml", "--grid", "ewc.lambda=[1]", "--grid", "ewc.lambda=[2]"}, "given twice");
  expect_refused({"tune", folder / "none.yaml", "--grid", "ewc.lambda=[1]"}, "none.yaml");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(ModelCommands, ForwardAndGenerate) {
  for (const auto& name : reference_models()) {
    if (name.rfind("golden:", 0) == 0) continue;
    const auto model = open_reference(name);
    TemporaryFolder folder;
    const auto io = model.folder + "/io.safetensors";
    const auto forward = run_program({"forward", "--model", model.folder, "--adapter", model.folder + "/adapter", "-i",
                                      io, "-o", folder / "out.safetensors", "--grad", "--generate", "2", "--json"});
    ASSERT_EQ(forward.status, 0) << name << forward.error;
    const auto shapes = forward.json()["shapes"];
    EXPECT_TRUE(shapes.contains("logits") && shapes.contains("loss") && shapes.contains("generated")) << name;
    // A gradient for every tensor of the adapter, under the name that it has there.
    const auto adapter = read_safetensors(model.folder + "/adapter/adapter_model.safetensors");
    ASSERT_FALSE(adapter.tensors.empty()) << name;
    for (const auto& view : adapter.tensors)
      EXPECT_EQ(shapes.value("grad." + view.name, std::vector<int64_t>()), view.shape) << name << " " << view.name;
    const auto generated =
        run_program({"generate", "--model", model.folder, "--prompt-ids", "5,6", "--max-new-tokens", "3", "--json"});
    ASSERT_EQ(generated.status, 0) << name << generated.error;
    EXPECT_LE(generated.json()["ids"].size(), 3u);
    const auto missing = run_program({"forward", "--model", model.folder, "-i", "none.safetensors", "-o", "x"});
    EXPECT_EQ(missing.status, 2);
  }
}

}  // namespace
}  // namespace asr
