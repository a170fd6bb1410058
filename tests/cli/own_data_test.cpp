// A stranger's data, models that are not there and settings without their files, as a user meets them.
#include <filesystem>
#include <sstream>

#include "base/text.h"
#include "io/png.h"
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Two tasks of ShareGPT's form without ids, a conversation of two answers a row, pictures beside them.
void write_own_data(const TemporaryFolder& folder) {
  fs::create_directories(folder / "data/pictures");
  json list = json::array();
  for (int i = 0; i < 12; ++i) {
    const std::vector<uint8_t> pixels(40 * 40 * 3, static_cast<uint8_t>(20 * i));
    const auto name = cat("pictures/", i, ".png");
    write_text(folder / ("data/" + name), encode_png(pixels.data(), 40, 40));
    list.push_back({{"messages",
                     {{{"role", "user"}, {"content", "<image>is it dark?"}},
                      {{"role", "assistant"}, {"content", i < 6 ? "yes" : "no"}},
                      {{"role", "user"}, {"content", "is it light?"}},
                      {{"role", "assistant"}, {"content", i < 6 ? "no" : "yes"}}}},
                    {"images", {name}}});
  }
  write_text(folder / "data/first.json", list.dump(1));
  write_text(folder / "data/second.json", list.dump());
}

void write_own_config(const TemporaryFolder& folder) {
  write_small_model(folder / "model");
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", "vanilla"))
    if (a.key.compare(0, 7, "stream.") != 0) yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml + "stream:\n  name: manifest\n  path: " + (folder / "data") + "\n");
}

TEST(OwnDataCommand, ShareGptFilesTrainAsTheyAre) {
  TemporaryFolder folder;
  write_own_data(folder);
  write_own_config(folder);
  const auto doctor = run_program({"doctor", folder / "c.yaml"});
  EXPECT_EQ(doctor.status, 0) << doctor.out << doctor.error;
  EXPECT_CONTAINS(doctor.out, " with and 0 without picture");
  const auto run = run_program({"run", folder / "c.yaml"});
  ASSERT_EQ(run.status, 0) << run.error;
  // Scores and nothing else: times would differ between runs that are the same.
  std::istringstream matrix(read_text(folder / "run/vanilla/matrix.csv"));
  std::string line;
  std::getline(matrix, line);
  EXPECT_EQ(line, "stage,first,second");
  for (int stage = 0; stage <= 2; ++stage) {
    ASSERT_TRUE(std::getline(matrix, line)) << stage;
    std::istringstream cells(line);
    std::string cell;
    ASSERT_TRUE(std::getline(cells, cell, ','));
    EXPECT_EQ(cell, std::to_string(stage));
    for (int task = 0; task < 2; ++task) {
      std::getline(cells, cell, ',');
      double score = -1;
      EXPECT_TRUE(cell.empty() || (parse_double(cell, score) && score >= 0 && score <= 100)) << line;
    }
  }
  EXPECT_FALSE(std::getline(matrix, line)) << line;
}

TEST(OwnDataCommand, RowsWithoutTheirPicturesStopARunAndTheDoctor) {
  TemporaryFolder folder;
  write_own_data(folder);
  write_own_config(folder);
  auto list = json::parse(read_text(folder / "data/second.json"));
  for (auto& row : list) {
    row["picture_file"] = row["images"][0];
    row.erase("images");
  }
  write_text(folder / "data/second.json", list.dump());
  expect_refused({"run", folder / "c.yaml"}, "second.json:1: id 'second:1': wants a picture but names none");
  const auto doctor = run_program({"doctor", folder / "c.yaml"});
  EXPECT_EQ(doctor.status, 2);
  EXPECT_CONTAINS(doctor.out, "wants a picture but names none; has 'messages', 'picture_file'");
  expect_refused({"prepare", "manifest", "--source", folder / "data", "-o", folder / "out"}, "names none");
}

TEST(OwnDataCommand, TheDoctorCountsRowsWithoutPicture) {
  TemporaryFolder folder;
  write_own_data(folder);
  write_own_config(folder);
  write_text(folder / "data/stream.json", "{\"text_only\": true}");
  std::string rows;
  for (int i = 0; i < 5; ++i) rows += cat("{\"id\": ", i, ", \"question\": \"is it?\", \"answer\": \"yes\"}\n");
  write_text(folder / "data/third.train.jsonl", rows);
  write_text(folder / "data/third.val.jsonl", rows);
  const auto doctor = run_program({"doctor", folder / "c.yaml"});
  EXPECT_CONTAINS(doctor.out, "train 5, 0 with and 5 without picture, 0 decoded");
}

TEST(OwnDataCommand, NothingIsDownloaded) {
  TemporaryFolder folder;
  write_own_data(folder);
  write_own_config(folder);
  const std::string advice =
      "nothing is downloaded; fetch a model of the Hugging Face hub with 'hf download org/some-7b "
      "--local-dir models/some-7b' and give that folder";
  expect_refused({"generate", "--model", "org/some-7b", "--prompt", "what?"}, advice);
  expect_refused({"forward", "--model", "org/some-7b", "-i", "a", "-o", folder / "b"}, advice);
  expect_refused({"tokenize", "--model", "org/some-7b"}, advice);
  expect_refused({"preprocess", "--model", "org/some-7b", "a.png", "-o", folder / "b"}, advice);
  expect_refused({"run", folder / "c.yaml", "--set", "model_name_or_path=org/some-7b"}, advice);
  const auto doctor = run_program({"doctor", folder / "c.yaml", "--set", "model_name_or_path=org/some-7b"});
  EXPECT_EQ(doctor.status, 2);
  EXPECT_CONTAINS(doctor.out, advice);
  expect_refused({"generate", "--model", "./models/x", "--prompt", "what?"},
                 "'hf download OWNER/x --local-dir models/x'");
}

TEST(OwnDataCommand, TheDoctorSaysHowToGetThePapersData) {
  const std::string root = ASR_SOURCE_DIR "/configs/paper/";
  std::vector<std::string> all = {"doctor"};
  for (const std::string name : {"clt-vqa", "coin", "nextqa", "ucit", "vqacl", "vqav2-10"})
    all.push_back(root + name + ".yaml");
  auto told = all;
  told.insert(told.end(), {"--set", "output_dir=/tmp/none"});
  const auto doctor = run_program(told);
  EXPECT_EQ(doctor.status, 2);
  for (const std::string stream : {"clt-vqa", "coin", "vqacl:nextqa", "ucit", "vqacl", "vqav2-10:asr"})
    EXPECT_CONTAINS(doctor.out, "asr prepare " + stream + " --source DIR --images DIR -o data/");
  EXPECT_CONTAINS(doctor.out, "or plan with published sizes: --assume");
  EXPECT_CONTAINS(doctor.out, "no model is given, so tiny-S, the small backbone that ships, would be trained");
  EXPECT_EQ(doctor.out.find("built in, "), std::string::npos) << doctor.out;
  auto planned = all;
  planned.insert(planned.end(), {ASR_SOURCE_DIR "/configs/backbones/llava-1.5-7b.yaml", "--set",
                                 "output_dir=/tmp/asr-none/planned", "--assume", "--json"});
  const auto plan = run_program(planned);
  EXPECT_EQ(plan.status, 0) << plan.out;
  EXPECT_EQ(plan.json()["settings"].size(), 6u);
  const auto json_report = run_program({"doctor", all[1], all[2], "--set", "output_dir=/tmp/none", "--json"});
  EXPECT_EQ(json_report.json()["settings"].size(), 2u);
}

}  // namespace
}  // namespace asr
