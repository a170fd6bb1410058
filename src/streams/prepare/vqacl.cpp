// vqacl: question types outside, five groups of objects inside, on VQA v2 or NExT-QA. With a held-out group, tasks from
// the second on train without it and are asked about it apart (novel composition).
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "streams/manifest.h"
#include "streams/picture.h"
#include "streams/prepare/concept_groups.h"
#include "streams/prepare/vqa_rows.h"

namespace asr {
namespace {

using nlohmann::json;

// "G3" as an index. -1: none is held out.
int held_group(const Preparation& preparation, GroupTable table) {
  const auto& text = preparation.options().held_out;
  if (text.empty()) return -1;
  for (int g = 0; g < 5; ++g)
    if (text == concept_group_name(table, g)) return g;
  fail("--held-out ", printable(text), ": is no group; use ", concept_group_name(table, 0), " to ",
       concept_group_name(table, 4));
}

struct GroupedRow {
  size_t task;
  DataSplit split;
  int group;  // -1: none
  SampleRow row;
};

// Where a row of a group goes; the held-out group is trained in the first task alone.
void place_row(Preparation& preparation, int held, GroupedRow grouped, const RowPlace& place) {
  const bool held_out = held >= 0 && grouped.group == held && grouped.task > 0;
  if (held_out && grouped.split == DataSplit::train) return preparation.drop("training rows of the held-out group");
  if (held_out && grouped.split == DataSplit::val) grouped.split = DataSplit::novel;
  preparation.add(grouped.task, grouped.split, std::move(grouped.row), place);
}

void prepare_vqav2(Preparation& preparation) {
  const int held = held_group(preparation, GroupTable::vqav2);
  for (const auto& name : vqacl_tasks()) preparation.add_task({name, vqa_metric(preparation), 16, {}});
  const bool partitions = has_partitions(preparation);
  const auto read = [&](const char* part, DataSplit split) {
    preparation.unit(part, [&, part, split] {
      ImageCategories categories;
      categories.read(preparation);
      if (split == DataSplit::train)
        for (size_t i = 0; i < 10; ++i) preparation.nest(i, inner_order(GroupTable::vqav2, i));
      read_vqacl(preparation, part, [&](VqaRow& row, const RowPlace& place) {
        const int category = categories.category_of(row.image_key),
                  group = concept_group_of(GroupTable::vqav2, category);
        if (group < 0)
          return preparation.drop(category < 0 ? "image without a category"
                                               : "category outside the five groups, as released");
        auto sample = sample_of(preparation, row, true);
        sample.concept_group = concept_group_name(GroupTable::vqav2, group);
        sample.category = std::to_string(category);
        place_row(preparation, held, {row.task, split, group, std::move(sample)}, place);
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
  int64_t ungrouped = 0;                                     // rows of the file at hand
  std::unordered_map<std::string, std::string> places = {};  // of videos, where the source has the dataset's map

  // Once a file, by its first row: the open-ended form, with commas between its columns.
  static void check_columns(const FileRecord& record, const RowPlace& place) {
    std::string found;
    for (const auto& [name, value] : record.value.items()) found += (found.empty() ? "" : ", ") + name;
    for (const char* name : {"video", "question", "answer", "qid", "type"})
      check(record.value.contains(name), place.path, ": has no column '", name,
            "'; found (between commas): ", printable(found, 120));
    int64_t choice = 0;
    const bool number = parse_int(trimmed(text_of(record.value["answer"])), choice) && choice >= 0 && choice <= 4;
    check(!(record.value.contains("a0") && record.value.contains("a4") && number), place.path,
          ": is the multiple-choice form of NExT-QA (columns a0 to a4); the open-ended files (NExT-OE) are wanted");
  }
  void row(const FileRecord& record, const RowPlace& place, DataSplit split) {
    if (record.number == 1) check_columns(record, place);
    const auto field = [&](const char* name) { return trimmed(text_of(record.value.value(name, json()))); };
    const auto video = field("video"), qid = field("qid");
    if (video.empty() || qid.empty()) return preparation.bad(place, "", "has no video and qid");
    const auto id = video + "_" + qid, type = field("type");
    if (type == "TP") return preparation.drop("type TP, which VQACL's files and published counts leave out");
    const auto found = std::find(std::begin(kNextTypes), std::end(kNextTypes), type);
    if (found == std::end(kNextTypes))
      return preparation.bad(place, id, cat("type '", printable(type), "' is unknown"));
    SampleRow out;
    out.id = id;
    out.question = field("question");
    out.answer = field("answer");
    out.type = type;
    out.image = place_of(video);
    int group = -1;
    if (int64_t category = 0; parse_int(field("bigCate"), category) && category >= 1 && category <= 80) {
      group = concept_group_of(GroupTable::nextqa, static_cast<int>(category));
      out.category = std::to_string(category);
    }
    ungrouped += group < 0;
    if (group < 0 && held >= 0) return preparation.drop("no object category among the five groups (column bigCate)");
    if (group >= 0) out.concept_group = concept_group_name(GroupTable::nextqa, group);
    const auto task = static_cast<size_t>(found - std::begin(kNextTypes));
    place_row(preparation, held, {task, split, group, std::move(out)}, place);
  }
  // train.csv, or a file for every type; false where there is neither.
  bool part(const std::string& name, DataSplit split) {
    auto path = preparation.find({name + ".csv"});
    std::vector<std::string> paths;
    if (!path.empty()) paths.push_back(path);
    for (size_t i = 0; i < 8 && path.empty(); ++i)
      if (auto one = preparation.find({name + "_" + kNextTypes[i] + ".csv"}); !one.empty()) paths.push_back(one);
    if (paths.empty()) return false;
    preparation.unit(name, [&] {
      read_places();
      for (const auto& file : paths)
        preparation.read(file, [&](const FileRecord& r, const RowPlace& place) { row(r, place, split); });
      if (split == DataSplit::train) nest();
    });
    return true;
  }
  // NExT-QA's videos lie in folders of VidOR, "1164/3238737531"; a folder of frames may have the plain name.
  void read_places() {
    const auto path = preparation.find({"map_vid_vidorID.json"});
    if (path.empty()) return;
    preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
      if (!record.value.is_string()) return preparation.bad(place, record.key, "is no video with its path");
      places[record.key] = record.value.get<std::string>();
    });
  }
  std::string place_of(const std::string& video) const {
    const auto found = places.find(video);
    if (found == places.end()) return video;
    const bool plain =
        preparation.options().check_images && missing_picture(image_path(preparation.images(), video)).empty();
    return plain ? video : found->second;
  }
  void nest() const {
    if (ungrouped > 0 && held < 0)
      return preparation.note(cat(ungrouped, " training rows have no object category of the five groups (column",
                                  " bigCate): tasks are trained without inner groups"));
    for (size_t i = 0; i < 8; ++i) preparation.nest(i, inner_order(GroupTable::nextqa, i));
  }
};

void prepare_nextqa(Preparation& preparation) {
  const int held = held_group(preparation, GroupTable::nextqa);
  const bool test = !preparation.find({"test.csv", "test_CW.csv"}).empty();
  // Without the test part, val is what is reported, and nothing is left to tune on.
  for (size_t i = 0; i < 8; ++i) {
    Published published = {kNextRows[0][i], test ? kNextRows[2][i] : kNextRows[1][i], test ? kNextRows[1][i] : -1};
    if (held >= 0) published.train = -1;
    preparation.add_task({kNextTypes[i], preparation.options().native ? "wups_vqacl" : "wups", 32, published});
  }
  preparation.published_total = {held >= 0 ? -1 : 37231, test ? 9085 : 5289, test ? 5289 : -1};
  NextReader reader{preparation, held};
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
