// vqacl: question types outside, five groups of objects inside, on VQA v2 or NExT-QA. With a held-out group, tasks from
// the second on train without it and are asked about it apart (novel composition).
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "streams/prepare/vqa_rows.h"

namespace asr {
namespace {

using nlohmann::json;
using Groups = std::array<std::array<int, 16>, 5>;

// As released: the groups part 0..79, while the images carry COCO's ids 1..90. Images of 80..90 fall out.
constexpr Groups kVqaGroups = {{{58, 48, 55, 36, 64, 1, 70, 73, 42, 15, 6, 18, 49, 59, 31, 2},
                                {19, 77, 22, 9, 24, 53, 12, 13, 78, 50, 47, 41, 32, 28, 54, 23},
                                {60, 8, 34, 25, 67, 4, 14, 68, 3, 79, 0, 5, 65, 20, 71, 39},
                                {35, 29, 66, 40, 43, 26, 72, 10, 38, 61, 76, 44, 75, 69, 16, 57},
                                {45, 33, 63, 56, 21, 11, 62, 74, 17, 52, 46, 30, 27, 51, 37, 7}}};
constexpr Groups kNextGroups = {{{50, 60, 15, 32, 79, 27, 53, 20, 36, 28, 24, 80, 41, 33, 18, 10},
                                 {54, 5, 57, 49, 69, 62, 7, 1, 14, 35, 56, 66, 58, 51, 46, 6},
                                 {59, 61, 74, 37, 47, 34, 19, 72, 75, 23, 63, 40, 67, 21, 73, 29},
                                 {22, 2, 48, 64, 68, 9, 65, 26, 45, 12, 8, 76, 55, 4, 77, 44},
                                 {78, 17, 52, 11, 30, 13, 38, 70, 25, 3, 43, 42, 39, 16, 71, 31}}};
// The order in which VQACL trains the groups of each task (Python's generator, seed 66666, no other draws).
constexpr const char* kInnerOrder[10] = {"1 2 4 5 3", "5 1 3 4 2", "2 3 1 4 5", "5 1 4 2 3", "5 1 2 4 3",
                                         "3 1 2 5 4", "1 5 3 4 2", "1 4 2 5 3", "5 1 3 2 4", "3 2 1 4 5"};

int group_of(const Groups& groups, int category) {
  for (size_t g = 0; g < groups.size(); ++g)
    if (std::find(groups[g].begin(), groups[g].end(), category) != groups[g].end()) return static_cast<int>(g);
  return -1;
}

// "G3" as an index; `first` is the number of the first group (1 for VQA v2, 0 for NExT-QA). -1: none is held out.
int held_group(const Preparation& preparation, int first) {
  const auto& text = preparation.options().held_out;
  if (text.empty()) return -1;
  for (int g = 0; g < 5; ++g)
    if (text == cat("G", g + first)) return g;
  fail("--held-out ", printable(text), ": is no group; use G", first, " to G", first + 4);
}

// Where a row of a group goes; the held-out group is trained in the first task alone.
void place_row(Preparation& preparation, size_t task, DataSplit split, int group, int held, SampleRow row,
               const RowPlace& place) {
  const bool held_out = held >= 0 && group == held && task > 0;
  if (held_out && split == DataSplit::train) return preparation.drop("training rows of the held-out group");
  if (held_out && split == DataSplit::val) split = DataSplit::novel;
  preparation.add(task, split, std::move(row), place);
}

void prepare_vqav2(Preparation& preparation) {
  const int held = held_group(preparation, 1);
  for (const auto& name : vqacl_tasks()) preparation.add_task({name, vqa_metric(preparation), 16, {}});
  const bool partitions = has_partitions(preparation);
  const auto read = [&](const char* part, DataSplit split) {
    preparation.unit(part, [&, part, split] {
      ImageCategories categories;
      categories.read(preparation);
      json order = json::object();
      for (size_t i = 0; i < 10; ++i) order[vqacl_tasks()[i]] = kInnerOrder[i];
      preparation.detail("inner_order", order);
      read_vqacl(preparation, part, [&](VqaRow& row, const RowPlace& place) {
        const int category = categories.category_of(row.image_key), group = group_of(kVqaGroups, category);
        if (group < 0)
          return preparation.drop(category < 0 ? "image without a category"
                                               : "category outside the five groups, as released");
        auto sample = sample_of(preparation, row, split != DataSplit::train);
        sample.concept_group = cat("G", group + 1);
        place_row(preparation, row.task, split, group, held, std::move(sample), place);
      });
      if (!partitions)
        preparation.note("no partition files: official train and val in place of the Karpathy split that VQACL uses");
    });
  };
  read("train", DataSplit::train);
  read("test", DataSplit::val);
  if (partitions) read("val", DataSplit::tune);
}

constexpr const char* kNextTypes[8] = {"CW", "TN", "TC", "DL", "DB", "DC", "DO", "CH"};
constexpr int64_t kNextRows[3][8] = {{13552, 5685, 4797, 1942, 2928, 1378, 2549, 4400},
                                     {1928, 895, 663, 295, 277, 192, 356, 683},
                                     {3333, 1399, 1165, 482, 495, 365, 672, 1174}};

struct NextReader {
  Preparation& preparation;
  int held;

  void row(const FileRecord& record, const RowPlace& place, DataSplit split) const {
    const auto field = [&](const char* name) { return trimmed(text_of(record.value.value(name, json()))); };
    const auto video = field("video"), qid = field("qid");
    if (video.empty() || qid.empty()) return preparation.bad(place, "", "has no video and qid");
    const auto id = video + "_" + qid, type = field("type");
    if (type == "TP") return preparation.drop("type TP, which VQACL's files and published counts leave out");
    const auto found = std::find(std::begin(kNextTypes), std::end(kNextTypes), type);
    if (found == std::end(kNextTypes))
      return preparation.bad(place, id, cat("type '", printable(type), "' is unknown"));
    SampleRow out;
    out.id = id, out.question = field("question"), out.answer = field("answer"), out.type = type, out.image = video;
    int group = -1;
    if (int64_t category = 0; parse_int(field("bigCate"), category))
      group = group_of(kNextGroups, static_cast<int>(category));
    if (group < 0 && held >= 0) return preparation.drop("no object category among the five groups (column bigCate)");
    if (group >= 0) out.concept_group = cat("G", group);
    place_row(preparation, static_cast<size_t>(found - std::begin(kNextTypes)), split, group, held, std::move(out),
              place);
  }
  // train.csv, or a file for every type; false where there is neither.
  bool part(const std::string& name, DataSplit split) const {
    auto path = preparation.find({name + ".csv"});
    std::vector<std::string> paths;
    if (!path.empty()) paths.push_back(path);
    for (size_t i = 0; i < 8 && path.empty(); ++i)
      if (auto one = preparation.find({name + "_" + kNextTypes[i] + ".csv"}); !one.empty()) paths.push_back(one);
    if (paths.empty()) return false;
    preparation.unit(name, [&] {
      for (const auto& file : paths)
        preparation.read(file, [&](const FileRecord& r, const RowPlace& place) { row(r, place, split); });
    });
    return true;
  }
};

void prepare_nextqa(Preparation& preparation) {
  const int held = held_group(preparation, 0);
  const bool test = !preparation.find({"test.csv", "test_CW.csv"}).empty();
  // Without the test part, val is what is reported, and nothing is left to tune on.
  for (size_t i = 0; i < 8; ++i) {
    Published published = {kNextRows[0][i], test ? kNextRows[2][i] : kNextRows[1][i], test ? kNextRows[1][i] : -1};
    if (held >= 0) published.train = -1;
    preparation.add_task({kNextTypes[i], preparation.options().native ? "wups_vqacl" : "wups", 32, published});
  }
  preparation.published_total = {held >= 0 ? -1 : 37231, test ? 9085 : 5289, test ? 5289 : -1};
  const NextReader reader{preparation, held};
  check(reader.part("train", DataSplit::train), preparation.options().source,
        ": holds no train.csv or train_CW.csv ...");
  if (test) check(reader.part("test", DataSplit::val), preparation.options().source, ": holds no test_CW.csv");
  check(reader.part("val", test ? DataSplit::tune : DataSplit::val) || test, preparation.options().source,
        ": holds no val.csv or val_CW.csv ...");
}

}  // namespace

void prepare_vqacl(Preparation& preparation) {
  if (preparation.choose_variant({"vqav2", "nextqa"}) == "vqav2")
    prepare_vqav2(preparation);
  else
    prepare_nextqa(preparation);
}

}  // namespace asr
