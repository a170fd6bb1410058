#include "streams/prepare/preparation.h"

#include <filesystem>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "io/video.h"
#include "streams/prepare/concept_groups.h"
#include "streams/prepare/vqa_rows.h"
#include "tests/streams/prepare_support.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

TEST(VqaTasks, EveryOfficialTypeHasATask) {
  const auto path = shared_data() + "/data/vqacl/mscoco_question_types.txt";
  if (!fs::exists(path)) GTEST_SKIP() << "no reference data at " << path << "; set ASR_TEST_DATA";
  std::ifstream in(path);
  int count = 0;
  for (std::string line; std::getline(in, line) && !line.empty(); ++count) EXPECT_GE(vqacl_task_of(line), 0) << line;
  EXPECT_EQ(count, 65);
  EXPECT_EQ(vqacl_task_of("who knows"), -1);
}

TEST_F(Prepare, Vqav2InTenTypes) {
  save_both();
  options_.tune_images = 10;
  const auto index = prepare("vqav2-10");
  ASSERT_EQ(index["tasks"].size(), 10u);
  EXPECT_EQ(text(index, 4, "name"), "count");
  EXPECT_EQ(all_rows(index, "train"), 120);
  EXPECT_EQ(all_rows(index, "val") + all_rows(index, "tune"), 80);
  EXPECT_EQ(all_rows(index, "tune"), 20);  // 80 questions on 40 images
  EXPECT_EQ(prepared_table(index).back().back(), "differs by 657911");
  EXPECT_FALSE(counts_agree(index));

  const auto stream = open("vqav2-10:vqacl");
  EXPECT_EQ(stream->tasks()[6].metric, "vqa");
  EXPECT_EQ(stream->size(0, DataSplit::train), 12);
  EXPECT_CONTAINS(error_of([&] { open("vqav2-10:asr"); }), "holds vqav2-10:vqacl, not vqav2-10:asr");
  EXPECT_CONTAINS(error_of([&] { open("coin"); }), "is no prepared coin but vqav2-10");
  EXPECT_CONTAINS(error_of([&] { stream->sample(0, DataSplit::train, 0); }), "there is no image");

  // No tuning image is in val.
  std::map<std::string, std::string> where;
  for (const auto& task : index["tasks"])
    for (const char* split : {"val", "tune"})
      if (task["files"].contains(split))
        read_records(folder_ / "out/" + task["files"][split]["path"].get<std::string>(), [&](const FileRecord& r) {
          const auto image = r.value["image"].get<std::string>();
          EXPECT_EQ(where.emplace(image, split).first->second, split);
          EXPECT_EQ(r.value["references"].size(), 10u);
          EXPECT_EQ(r.value["answer"].get<std::string>(), "yes");
        });

  EXPECT_TRUE(prepare("vqav2-10").contains("already_complete"));
  options_.seed = 1;
  EXPECT_CONTAINS(refusal("vqav2-10"), "with other options");
}

TEST_F(Prepare, TheRulesOfTheReleasedPreparation) {
  save_vqa("train",
           {"how many", "what color is the", "where is the", "is this more", "what kind of", "what is he doing",
            "is there a", "which sign", "what is the", "why"},
           4);
  save_vqa("val",
           {"how many", "what Colour", "is he sitting", "same", "what size", "are they riding", "does the",
            "what letter", "who is", "can you"},
           4);
  options_.tune_images = 0;
  const auto index = prepare("vqav2-10:asr");
  const std::vector<std::string> names = {"count",    "color",     "locate", "comparison", "attribute",
                                          "activity", "existence", "read",   "object",     "other"};
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(text(index, i, "name"), names[i]);
    EXPECT_EQ(rows(index, i, "val"), 4) << names[i];
    EXPECT_EQ(rows(index, i, "train"), 4) << names[i];
  }
}

TEST_F(Prepare, BadRowsAreNamedOrSkippedAndListed) {
  save_both();
  options_.tune_images = 0;
  const auto path = "v2_mscoco_val2014_annotations.json";
  auto top = json::parse(read_text(folder_ / cat("in/", path)));
  auto& list = top["annotations"];
  const auto id = [&](size_t i) { return list[i]["question_id"].get<int64_t>(); };
  const auto second = id(2), third = id(3), fourth = id(5);
  list[2].erase("answers");
  list[3]["question_id"] = 77;
  list[4] = list[0];
  list[5]["question_type"] = "odd";
  save(path, top.dump(1));
  EXPECT_CONTAINS(refusal("vqav2-10"), cat("id '", second, "': has no answers; --skip-bad"));
  EXPECT_CONTAINS(refusal("vqav2-10"), "annotations.json:");

  options_.skip_bad = true;
  options_.output = folder_ / "out2";
  const auto index = prepare("vqav2-10");
  EXPECT_EQ(all_rows(index, "val"), 80 - 4);
  // Two annotations without a question of theirs leave two questions without an annotation.
  int64_t skipped = 0;
  for (const auto& count : index["skipped"]) skipped += count.get<int64_t>();
  EXPECT_EQ(skipped, 6);
  const auto lines = read_text(folder_ / "out2/skipped/02.jsonl");
  EXPECT_CONTAINS(lines, cat("\"id\":\"", third, "\""));
  EXPECT_CONTAINS(lines, "the question has no annotation");
  EXPECT_CONTAINS(lines, "no question has this id");
  EXPECT_CONTAINS(lines, "the id stands twice");
  EXPECT_CONTAINS(lines, cat("\"id\":\"", fourth, "\""));
  EXPECT_CONTAINS(lines, "question_type 'odd' is none of the 65");

  options_.check_images = true;
  options_.skip_bad = false;
  options_.output = folder_ / "out3";
  EXPECT_CONTAINS(refusal("vqav2-10"), "there is no image");
}

TEST_F(Prepare, AnInterruptedPreparationGoesOn) {
  save_both();
  options_.tune_images = 0;
  const auto val = folder_ / "in/v2_mscoco_val2014_annotations.json";
  const auto whole = read_text(val);
  write_text(val, whole.substr(0, whole.size() / 2));
  EXPECT_CONTAINS(refusal("vqav2-10"), "not valid JSON");
  EXPECT_FALSE(fs::exists(folder_ / "out/stream.json"));
  const auto done = folder_ / "out/01-recognition/train.jsonl";
  const auto time = fs::last_write_time(done);
  write_text(folder_ / "out/01-recognition/val.jsonl.tmp-1", "left by a kill");
  write_text(val, whole);
  const auto index = prepare("vqav2-10");
  EXPECT_EQ(fs::last_write_time(done), time);
  EXPECT_EQ(all_rows(index, "val"), 80);
  EXPECT_FALSE(fs::exists(folder_ / "out/01-recognition/val.jsonl.tmp-1"));
  EXPECT_FALSE(fs::exists(folder_ / "out/progress.json"));
  write_text(done, read_text(done) + "\n");
  EXPECT_CONTAINS(error_of([&] { open("vqav2-10"); }), "has changed since it was prepared");
}

TEST_F(Prepare, FoldersOfOthersAreLeftAlone) {
  save_both();
  fs::create_directories(folder_ / "out");
  write_text(folder_ / "out/mine.txt", "mine");
  EXPECT_CONTAINS(refusal("vqav2-10"), "is not empty and no preparation of ours");
  options_.output = folder_ / "new";
  EXPECT_CONTAINS(refusal("vqav2-10:odd"), "has no variant 'odd'");
  EXPECT_CONTAINS(refusal("vqav-10"), "did you mean 'vqav2-10'");
  options_.strict = true;
  EXPECT_CONTAINS(refusal("vqav2-10"), "counts differ");
}

TEST_F(Prepare, VqaclGroupsAndNovelComposition) {
  json map = json::object();
  const auto image = [](int i) { return cat("COCO_val2014_", i); };
  for (int i = 0; i < 10; ++i) map[image(i)] = std::vector<int>{58, 19, 60, 35, 45}[static_cast<size_t>(i % 5)];
  map[image(10)] = 85;
  save("ImgId_cate_map.json", map.dump());
  for (const char* split : {"train", "val", "test"})
    for (size_t task = 0; task < 10; ++task) {
      json list = json::array();
      for (int i = 0; i < 12; ++i)
        list.push_back({{"question_id", 1000 * static_cast<int>(task) + i},
                        {"img_id", image(i)},
                        {"sent", "what?"},
                        {"label", {{"dog", 1.0}, {"puppy", 0.6}}},
                        {"question_type", "what"},
                        {"answer_type", "other"}});
      save(cat("Partition_Q/karpathy_", split, "_q_", vqacl_tasks()[task], ".json"), list.dump());
    }
  const auto standard = prepare("vqacl");
  EXPECT_EQ(rows(standard, 3, "train"), 10);
  EXPECT_EQ(rows(standard, 3, "val"), 10);
  EXPECT_EQ(rows(standard, 3, "tune"), 10);
  EXPECT_EQ(rows(standard, 3, "novel"), 0);
  EXPECT_EQ(standard["dropped"]["category outside the five groups, as released"], 30);
  EXPECT_EQ(standard["dropped"]["image without a category"], 30);
  EXPECT_EQ(standard["tasks"][9]["groups"].dump(), "[\"G3\",\"G2\",\"G1\",\"G4\",\"G5\"]");
  // Two rows of every group, one group after the other.
  const auto nested = open("vqacl")->phases(1);
  ASSERT_EQ(nested.size(), 5u);
  EXPECT_EQ(nested[0].name, "G5");
  EXPECT_EQ(nested[0].rows, (std::vector<int64_t>{4, 9}));
  EXPECT_EQ(nested[4].name, "G2");

  options_.output = folder_ / "novel";
  options_.held_out = "G2";
  const auto novel = prepare("vqacl");
  EXPECT_EQ(rows(novel, 0, "train"), 10);
  EXPECT_EQ(rows(novel, 0, "novel"), 0);
  EXPECT_EQ(rows(novel, 1, "train"), 8);
  EXPECT_EQ(rows(novel, 1, "val"), 8);
  EXPECT_EQ(rows(novel, 1, "novel"), 2);
  EXPECT_TRUE(open("vqacl")->tasks()[1].novel);
  EXPECT_FALSE(open("vqacl")->tasks()[0].novel);
  EXPECT_EQ(open("vqacl")->phases(0).size(), 5u);
  std::vector<std::string> order;
  for (const auto& phase : open("vqacl")->phases(1)) order.push_back(phase.name);
  EXPECT_EQ(order, (std::vector<std::string>{"G5", "G1", "G3", "G4"}));
  StreamOptions mixed;
  mixed.name = "vqacl";
  mixed.path = options_.output;
  mixed.groups = GroupOrder::mixed;
  EXPECT_TRUE(make_stream(mixed)->phases(1).empty());
  EXPECT_NE(make_stream(mixed)->fingerprint(), open("vqacl")->fingerprint());
  options_.held_out = "G0";
  options_.output = folder_ / "none";
  EXPECT_CONTAINS(refusal("vqacl"), "use G1 to G5");
}

TEST_F(Prepare, NextqaFromCsv) {
  const std::string head = ",video,frame_count,width,height,question,answer,qid,type,bigCate\n";
  for (const char* part : {"train", "val", "test"}) {
    std::string lines = "\xef\xbb\xbf" + head;
    int n = 0;
    for (const char* type : {"CW", "TN", "TP", "TC", "DL", "DB", "DC", "DO", "CH"})
      for (int i = 0; i < 2; ++i) {
        lines += cat(n, ",", 100 + n, ",90,4,4,\"why, he\nasked\",yes,", i, ",", type, ",", i == 0 ? 50 : 54, "\r\n");
        ++n;
      }
    save(cat(part, ".csv"), lines);
  }
  const auto index = prepare("vqacl:nextqa");
  EXPECT_EQ(rows(index, 1, "train"), 2);
  EXPECT_EQ(all_rows(index, "tune"), 16);
  EXPECT_EQ(index["dropped"].size(), 1u);  // TP
  EXPECT_EQ(text(index, 5, "metric"), "wups");
  const auto nested = open("vqacl:nextqa")->phases(0);
  ASSERT_EQ(nested.size(), 2u);  // of G2 G3 G0 G4 G1, two have rows
  EXPECT_EQ(nested[0].name, "G0");
  EXPECT_EQ(nested[1].name, "G1");
  options_.output = folder_ / "novel";
  options_.held_out = "G1";
  const auto novel = prepare("vqacl:nextqa");
  EXPECT_EQ(rows(novel, 2, "novel"), 1);
  EXPECT_EQ(rows(novel, 2, "train"), 1);
  save("train.csv", head + "0,,90,4,4,q,a,1,CW,50\n");
  options_.output = folder_ / "bad";
  EXPECT_CONTAINS(refusal("vqacl:nextqa"), "train.csv:2:1: has no video and qid");
}

TEST_F(Prepare, TheLongTailIsWhatTheRuleSays) {
  // Ten answers with 100 rows each become 100 * 100^(-j/9).
  const std::vector<size_t> tasks = {0, 1, 3, 4, 5, 6, 7, 8, 9};
  for (const char* split : {"train", "test"})
    for (const size_t task : tasks) {
      json list = json::array();
      for (int i = 0; i < 1000; ++i)
        list.push_back({{"question_id", 10000 * static_cast<int>(task) + i},
                        {"img_id", cat("COCO_val2014_", i)},
                        {"sent", "what?"},
                        {"label", {{cat("answer ", i % 10), 1.0}}},
                        {"question_type", "what"}});
      list.push_back(
          {{"question_id", 999999}, {"img_id", "COCO_val2014_1"}, {"sent", "what?"}, {"label", {{"rare", 1.0}}}});
      save(cat(split, "_q_", vqacl_tasks()[task], ".json"), list.dump());
    }
  const auto index = prepare("clt-vqa");
  ASSERT_EQ(index["tasks"].size(), 9u);
  EXPECT_EQ(text(index, 1, "name"), "count");
  EXPECT_EQ(rows(index, 0, "train"), 100 + 59 + 35 + 21 + 12 + 7 + 4 + 2 + 1 + 1);
  EXPECT_EQ(rows(index, 0, "val"), 1001);
  const auto& detail = index["details"]["train of recognition"];
  EXPECT_EQ(detail["head"], 100 + 59 + 35 + 21);
  EXPECT_EQ(detail["medium"], 12 + 7 + 4);
  EXPECT_EQ(detail["tail"], 2 + 1 + 1);
  EXPECT_EQ(index["details"]["val of count"]["unseen"], 1);
  EXPECT_EQ(index["details"]["val of count"]["head"], 400);
  EXPECT_EQ(index["dropped"]["training rows above the long tail"], 9 * (1001 - 242));
  const auto first = read_text(folder_ / "out/01-recognition/train.jsonl");
  options_.output = folder_ / "again";
  prepare("clt-vqa");
  EXPECT_EQ(first, read_text(folder_ / "again/01-recognition/train.jsonl"));
  options_.output = folder_ / "other";
  options_.seed = 5;
  prepare("clt-vqa");
  EXPECT_NE(first, read_text(folder_ / "other/01-recognition/train.jsonl"));
}

TEST(ConceptGroups, OfTheReleasedMap) {
  const auto path = shared_data() + "/data/vqacl/ImgId_cate_map.json.gz";
  if (!fs::exists(path)) GTEST_SKIP() << "no reference data at " << path << "; set ASR_TEST_DATA";
  std::map<int, int64_t> groups;
  std::map<std::string, int64_t> splits;
  std::set<int> categories;
  read_records(path, [&](const FileRecord& record) {
    ++groups[concept_group_of(GroupTable::vqav2, record.value.get<int>())];
    ++splits[record.key.substr(5, record.key.find('_', 5) - 5)];
    categories.insert(record.value.get<int>());
  });
  EXPECT_EQ(groups, (std::map<int, int64_t>{{-1, 11348}, {0, 43207}, {1, 15436}, {2, 20417}, {3, 15366}, {4, 16444}}));
  EXPECT_EQ(splits, (std::map<std::string, int64_t>{{"train2014", 82081}, {"val2014", 40137}}));
  std::vector<int> without;
  for (int category = 0; category < 80; ++category)
    if (!categories.count(category)) without.push_back(category);
  EXPECT_EQ(without, (std::vector<int>{0, 12, 26, 29, 30, 45, 66, 68, 69, 71}));
}

TEST(ConceptGroups, PartTheCategoriesAndHaveAnOrderInEveryTask) {
  for (const auto table : {GroupTable::vqav2, GroupTable::nextqa}) {
    const int first = table == GroupTable::vqav2 ? 0 : 1;
    std::map<int, int> sizes;
    for (int category = first; category < first + 80; ++category) ++sizes[concept_group_of(table, category)];
    EXPECT_EQ(sizes, (std::map<int, int>{{0, 16}, {1, 16}, {2, 16}, {3, 16}, {4, 16}}));
    EXPECT_EQ(concept_group_of(table, first + 80), -1);
    for (size_t task = 0; task < (table == GroupTable::vqav2 ? 10u : 8u); ++task) {
      auto order = inner_order(table, task);
      std::sort(order.begin(), order.end());
      for (int group = 0; group < 5; ++group)
        EXPECT_EQ(order.at(static_cast<size_t>(group)), concept_group_name(table, group));
    }
  }
}

// Real files of others: every question finds a task, and NExT-QA's counts are the published ones.
TEST_F(Prepare, FilesOfTheBenchmarks) {
  const auto data = shared_data() + "/data/";
  if (!fs::exists(data)) GTEST_SKIP() << "no reference data at " << data << "; set ASR_TEST_DATA";
  for (const char* split : {"train", "val"}) {
    fs::create_symlink(data + "vqav2_subset/vqa_questions_train.json.gz",
                       folder_ / cat("in/v2_OpenEnded_mscoco_", split, "2014_questions.json.gz"));
    fs::create_symlink(data + "vqav2_subset/vqa_annotatons_train.json.gz",
                       folder_ / cat("in/v2_mscoco_", split, "2014_annotations.json.gz"));
    fs::create_symlink(data + "nextqa_oe/" + split + ".csv.gz", folder_ / cat("in/", split, ".csv.gz"));
  }
  // The questions are all about images of train; as val they need its names.
  json map = json::object();
  read_records(data + "vqacl/ImgId_cate_map.json.gz", [&](const FileRecord& record) {
    if (record.key.compare(0, 10, "COCO_train") != 0) return;
    map[record.key] = map["COCO_val" + record.key.substr(10)] = record.value;
  });
  save("ImgId_cate_map.json", map.dump());
  const auto index = prepare("vqav2-10");
  EXPECT_EQ(all_rows(index, "train"), 48061);
  EXPECT_EQ(all_rows(index, "val") + all_rows(index, "tune"), 48061);
  options_.output = folder_ / "next";
  const auto next = prepare("vqacl:nextqa");
  for (const auto& row : prepared_table(next))
    EXPECT_NE(row.back().compare(0, 7, "differs"), 0) << row[0] << row.back();
  // Every question is placed or counted as left out.
  for (const char* name : {"vqacl", "clt-vqa", "clt-vqa:concepts"}) {
    options_.output = folder_ / (std::string("of ") + name);
    const auto grouped = prepare(name);
    int64_t dropped = 0;
    for (const auto& count : grouped["dropped"]) dropped += count.get<int64_t>();
    EXPECT_EQ(all_rows(grouped, "train") + all_rows(grouped, "val") + dropped, 2 * 48061) << name;
    EXPECT_EQ(grouped["tasks"][0]["groups"].size(), 5u) << name;
  }
}

}  // namespace
}  // namespace asr
