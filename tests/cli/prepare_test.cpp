// asr prepare as a user meets it, and the streams it writes through asr run.
#include <filesystem>

#include "tests/support/archive.h"
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

Outcome train(const TemporaryFolder& folder, const std::string& stream, const std::vector<std::string>& more) {
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", "vanilla"))
    if (a.key.compare(0, 7, "stream.") != 0) yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml + "stream:\n  name: manifest\n  path: " + stream + "\n");
  std::vector<std::string> arguments = {"run", folder / "c.yaml", "--json"};
  for (const auto& set : more) {
    arguments.push_back("--set");
    arguments.push_back(set);
  }
  return run_program(arguments);
}

TEST(PrepareCommand, TheExportedWorldGoesThroughAndTrains) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto exported = run_program({"world", "export", "--stream", "world-sc", "-o", folder / "world", "--train", "12",
                                     "--val", "6", "--tune", "2", "--size", "40"});
  ASSERT_EQ(exported.status, 0) << exported.error;
  const auto prepared =
      run_program({"prepare", "manifest", "--source", folder / "world", "-o", folder / "stream", "--json"});
  ASSERT_EQ(prepared.status, 0) << prepared.error;
  const auto index = prepared.json();
  ASSERT_EQ(index["tasks"].size(), 10u);
  EXPECT_EQ(index["tasks"][0]["files"]["train"]["rows"].get<int>(), 12);
  EXPECT_EQ(index["tasks"][0]["files"]["tune"]["rows"].get<int>(), 2);
  EXPECT_EQ(index["tasks"][0]["files"]["novel"]["rows"].get<int>(), 6);
  const auto again = run_program({"prepare", "manifest", "--source", folder / "world", "-o", folder / "stream"});
  EXPECT_EQ(again.status, 0);
  EXPECT_CONTAINS(again.out, "is complete already");

  const auto run = train(folder, folder / "stream", {"stream.tasks=2"});
  ASSERT_EQ(run.status, 0) << run.error;
  EXPECT_CONTAINS(read_text(folder / "run/vanilla/matrix.csv"), "stage,count,color");
  EXPECT_TRUE(fs::exists(folder / "run/vanilla/predictions/novel-stage-02-task-01.jsonl"));
  const auto direct = train(folder, folder / "world", {"stream.tasks=1", "output_dir=" + folder / "direct"});
  EXPECT_EQ(direct.status, 0) << direct.error;
}

TEST(PrepareCommand, BadInputIsOneLine) {
  TemporaryFolder folder;
  fs::create_directories(folder / "in");
  write_text(folder / "in/t.jsonl", "{\"id\": 1,\n");
  const auto refused = [&](const std::string& name, const std::string& part) {
    expect_refused({"prepare", name, "--source", folder / "in", "-o", folder / "out"}, part);
  };
  refused("manifest", "t.jsonl:1:10: not valid JSON");
  refused("manifst", "did you mean 'manifest'");
  refused("vqav2-10", "holds no questions of VQA v2 train; expected v2_OpenEnded");
  refused("coin", "holds no training rows of ScienceQA");
  refused("vqacl:nextqa", "holds no train.csv");
  expect_refused({"prepare", "manifest", "--source", folder / "none", "-o", folder / "out"}, "is no folder");
  write_small_model(folder / "model");
  write_text(folder / "in/stream.json",
             "{\"text_only\":true,\"tasks\":[{\"name\":\"t\",\"metric\":\"exat\",\"files\":{\"train\":\"t.jsonl\"}}]}");
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += cat("{\"id\":", i, ",\"question\":\"is it?\",\"answer\":\"yes\"}\n");
  write_text(folder / "in/t.jsonl", rows);
  const auto run = train(folder, folder / "in", {});
  EXPECT_EQ(run.status, 2);
  EXPECT_CONTAINS(run.error, "did you mean 'exact'");
}

TEST(PrepareCommand, PartsOfALongTailAreLogged) {
  TemporaryFolder folder;
  fs::create_directories(folder / "in");
  write_small_model(folder / "model");
  std::string rows;
  for (int i = 0; i < 20; ++i)
    rows +=
        cat("{\"id\":", i, ",\"question\":\"is it?\",\"answer\":\"yes\",\"part\":\"", i % 2 ? "head" : "tail", "\"}\n");
  write_text(folder / "in/t.train.jsonl", rows);
  write_text(folder / "in/t.val.jsonl", rows);
  write_text(folder / "in/stream.json", "{\"text_only\": true}");
  const auto run = train(folder, folder / "in", {});
  ASSERT_EQ(run.status, 0) << run.error;
  const auto log = read_text(folder / "run/vanilla/log.jsonl");
  EXPECT_CONTAINS(log, "\"parts\":{\"head\":{\"accuracy\":");
  EXPECT_CONTAINS(log, "\"tail\":{");
  EXPECT_CONTAINS(read_text(folder / "run/vanilla/predictions/stage-01-task-01.jsonl"), "\"part\":\"head\"");
}

// Photographs of any size, words that the vocabulary lacks: trained end to end on the built-in backbone.
TEST(PrepareCommand, RealPicturesTrain) {
  const auto archive = shared_data() + "/data/vqa_rad_part.tar.gz";
  if (!fs::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
  TemporaryFolder folder;
  ASSERT_TRUE(unpack(archive, folder.path()));
  write_small_model(folder / "model");
  const auto list = nlohmann::json::parse(read_text(folder / "vqa_rad_part/questions.json"));
  std::string rows;
  for (const auto& q : list)
    rows +=
        nlohmann::json{
            {"id", q["qid"]}, {"image", q["image_name"]}, {"question", q["question"]}, {"answer", q["answer"]}}
            .dump() +
        "\n";
  write_text(folder / "vqa_rad_part/images/rad.jsonl", rows);
  const auto run = train(folder, folder / "vqa_rad_part/images", {"stream.train=24", "stream.val=12"});
  ASSERT_EQ(run.status, 0) << run.error;
  EXPECT_CONTAINS(run.error, "answers can be expressed");
  EXPECT_CONTAINS(read_text(folder / "run/vanilla/matrix.csv"), "stage,rad");
}

}  // namespace
}  // namespace asr
