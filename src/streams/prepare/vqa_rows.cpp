#include "streams/prepare/vqa_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kNoAnswer = "<outside the vocabulary>";

// A row of an official file: an element of the member of that name, or of a file that is nothing but rows.
bool is_row(const FileRecord& record, const char* member) {
  return !record.in_map && (record.key == member || record.key.empty());
}

bool image_id_of(const json& value, int64_t& out) {
  return value.is_object() && parse_int(text_of(value.value("image_id", json())), out);
}

// What most annotators said, the first of several.
std::string most_said(const std::vector<std::string>& answers) {
  const std::string* best = &answers[0];
  for (const auto& answer : answers)
    if (std::count(answers.begin(), answers.end(), answer) > std::count(answers.begin(), answers.end(), *best))
      best = &answer;
  return *best;
}

// All questions of a split, texts one behind the other: some 60 bytes and the text a question.
class QuestionTable {
 public:
  struct Entry {
    int64_t image_id = 0;
    size_t begin = 0, size = 0, line = 0, column = 0;
    bool answered = false;
  };

  QuestionTable(Preparation& preparation, const std::string& path) : path_(path) {
    preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
      if (!is_row(record, "questions")) return;
      const auto& value = record.value;
      const auto id = value.is_object() ? text_of(value.value("question_id", json())) : "";
      int64_t number = 0;
      if (!parse_int(id, number)) return preparation.bad(place, id, "has no question_id that is a number");
      int64_t image = 0;
      if (!image_id_of(value, image)) return preparation.bad(place, id, "has no image_id that is a number");
      const auto text = text_of(value.value("question", json()));
      const Entry entry{image, texts_.size(), text.size(), place.line, place.column, false};
      if (!index_.emplace(number, entry).second) return preparation.bad(place, id, "the id stands twice");
      texts_ += text;
    });
    check(!index_.empty(), path, ": holds no 'questions'; is it the official questions file?");
  }

  Entry* find(int64_t id) {
    const auto place = index_.find(id);
    return place == index_.end() ? nullptr : &place->second;
  }
  std::string text(const Entry& entry) const { return texts_.substr(entry.begin, entry.size); }
  void report_unanswered(Preparation& preparation) const {
    std::vector<std::pair<std::pair<size_t, size_t>, int64_t>> left;
    for (const auto& [id, entry] : index_)
      if (!entry.answered) left.push_back({{entry.line, entry.column}, id});
    std::sort(left.begin(), left.end());
    for (const auto& [place, id] : left)
      preparation.bad({path_, place.first, place.second}, std::to_string(id), "the question has no annotation");
  }

 private:
  const std::string& path_;
  std::unordered_map<int64_t, Entry> index_;
  std::string texts_;
};

std::string lower(std::string text) {
  for (auto& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// What the annotators said, given only the score of each answer: 0.3 a match, at least four from 1. The rest are texts
// that nobody predicts, so that every answer keeps its score.
std::vector<std::string> annotators_of(const json& label) {
  std::vector<std::string> out;
  for (const auto& [answer, score] : label.items()) {
    if (!score.is_number()) continue;
    const int count = std::clamp(static_cast<int>(std::lround(score.get<double>() / 0.3)), 0, 4);
    out.insert(out.end(), static_cast<size_t>(score.get<double>() >= 0.99 ? 4 : count), answer);
  }
  if (out.empty()) return out;
  for (int i = 1; out.size() < 10; ++i) out.push_back(fmt::format("<other {}>", i));
  return out;
}

std::string label_problem(const json& row, const json& label) {
  if (!row.contains("label") && !row.contains("answers")) return "has neither label nor answers";
  if (!label.is_object()) return "'label' is no object of answers and their scores";
  for (const auto& [answer, score] : label.items())
    if (!score.is_number()) return cat("'label' has no number for '", printable(answer), "'");
  return "";
}

std::string best_label(const json& label) {
  std::string best;
  double score = -1;
  for (const auto& [answer, value] : label.items()) {
    if (value.is_number() && value.get<double>() > score) {
      best = answer;
      score = value.get<double>();
    }
  }
  return best;
}

std::vector<std::string> partition_names(const std::string& split, size_t task) {
  const auto& name = vqacl_tasks()[task];
  std::vector<std::string> out;
  for (const char* folder : {"Partition_Q/", "Partition_Q_V2/", ""}) {
    out.push_back(fmt::format("{}karpathy_{}_q_{}.json", folder, split, name));
    out.push_back(fmt::format("{}karpathy_{}_{}.json", folder, split, name));
    if (split != "val") out.push_back(fmt::format("{}{}_q_{}.json", folder, split, name));
    if (split != "val") out.push_back(fmt::format("{}{}_{}.json", folder, split, name));
  }
  return out;
}

void read_partition(Preparation& preparation, const std::string& path, size_t task, bool train, const VqaRowUse& use) {
  preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
    const auto& value = record.value;
    VqaRow row;
    const auto id = value.is_object() ? text_of(value.value("question_id", json())) : "";
    if (!parse_int(id, row.question_id)) return preparation.bad(place, id, "has no question_id that is a number");
    row.image_key = text_of(value.value("img_id", json()));
    row.question = text_of(value.value("sent", json()));
    row.question_type = text_of(value.value("question_type", json()));
    row.task = task;
    if (row.image_key.empty()) return preparation.bad(place, id, "has no img_id");
    SampleRow listed;
    if (value.contains("answers")) {
      if (const auto reason = read_row(value, listed); !reason.empty()) return preparation.bad(place, id, reason);
      row.answers = listed.references;
    }
    const auto label = value.value("label", json::object());
    if (const auto reason = label_problem(value, label); !reason.empty()) return preparation.bad(place, id, reason);
    if (row.answers.empty()) row.answers = annotators_of(label);
    row.answer = label.empty() ? listed.answer : best_label(label);
    // Its answers are all outside the vocabulary of 3,129: nothing to train on. A test row stays, so that no score is
    // flattered, and nothing can be right there.
    if (row.answer.empty() && train) return preparation.drop("training rows without an answer of the vocabulary");
    if (row.answer.empty()) {
      row.answer = kNoAnswer;
      row.answers = {kNoAnswer};
      preparation.note("test rows without an answer of the vocabulary count as wrong");
    }
    use(row, place);
  });
}

}  // namespace

void read_official_vqa(Preparation& preparation, const std::string& split, const VqaRowUse& use) {
  const auto questions =
      preparation.need({"v2_OpenEnded_mscoco_" + split + "2014_questions.json"}, "questions of VQA v2 " + split);
  const auto annotations =
      preparation.need({"v2_mscoco_" + split + "2014_annotations.json"}, "annotations of VQA v2 " + split);
  QuestionTable table(preparation, questions);
  bool any = false;
  preparation.read(annotations, [&](const FileRecord& record, const RowPlace& place) {
    if (!is_row(record, "annotations")) return;
    any = true;
    VqaRow row;
    const auto& value = record.value;
    const auto id = value.is_object() ? text_of(value.value("question_id", json())) : "";
    if (!parse_int(id, row.question_id)) return preparation.bad(place, id, "has no question_id that is a number");
    auto* question = table.find(row.question_id);
    if (!question) return preparation.bad(place, id, "no question has this id");
    if (question->answered) return preparation.bad(place, id, "the id stands twice");
    question->answered = true;
    if (int64_t image = 0; image_id_of(value, image) && image != question->image_id)
      return preparation.bad(place, id, "question and annotation name different images");
    SampleRow listed;
    if (const auto reason = read_row(value, listed); !reason.empty()) return preparation.bad(place, id, reason);
    if (listed.references.empty()) return preparation.bad(place, id, "has no answers");
    row.answers = std::move(listed.references);
    const bool told = value.contains("answer") || value.contains("multiple_choice_answer");
    row.answer = lower(told ? listed.answer : most_said(row.answers));
    row.question_type = listed.type;
    row.question = table.text(*question);
    row.image_key = fmt::format("COCO_{}2014_{:012d}", split, question->image_id);
    use(row, place);
  });
  check(any, annotations, ": holds no 'annotations'; is it the official annotations file?");
  table.report_unanswered(preparation);
}

const std::vector<std::string>& vqacl_tasks() {
  static const std::vector<std::string> names = {"recognition", "location", "judge", "commonsense", "count",
                                                 "action",      "color",    "type",  "subcategory", "causal"};
  return names;
}

int vqacl_task_of(const std::string& question_type) {
  static const std::vector<std::vector<const char*>> table = {
      {"what", "what is the", "what is", "what are the", "what are", "which", "what is on the", "what is in the",
       "what is this", "what does the", "who is", "what is the name"},
      {"where is the", "where are the", "what room is"},
      {"is the", "is this", "is this a", "is this an", "is that a", "is there", "is there a", "is it", "is", "are the",
       "are there", "are there any", "are these", "are", "was"},
      {"does the", "does this", "do", "do you", "has", "can you", "could"},
      {"how many", "how many people are", "how many people are in", "what number is"},
      {"what is the man", "what is the woman", "what is the person", "is the man", "is the woman", "is the person",
       "is this person", "is he", "are they"},
      {"what color", "what color is", "what color is the", "what color are the", "what is the color of the"},
      {"what kind of", "what type of"},
      {"what time", "what sport is", "what animal is", "what brand", "none of the above"},
      {"why", "why is the", "how"}};
  static const std::unordered_map<std::string, int> index = [] {
    std::unordered_map<std::string, int> out;
    for (size_t task = 0; task < table.size(); ++task)
      for (const char* type : table[task]) out[type] = static_cast<int>(task);
    return out;
  }();
  const auto place = index.find(question_type);
  return place == index.end() ? -1 : place->second;
}

void QuestionTaskMap::read(Preparation& preparation) {
  const auto path = preparation.find({"QuesId_task_map.json"});
  if (path.empty()) {
    preparation.note(
        "no QuesId_task_map.json: tasks follow question_type, and is/are questions about actions stay in judge");
    return;
  }
  preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
    int64_t id = 0;
    const bool number = record.value.is_number_integer();
    const int64_t task = number ? record.value.get<int64_t>() : -1;
    if (!parse_int(record.key, id) || task < 0 || task > 9)
      return preparation.bad(place, record.key, "is no question id with a task from 0 to 9");
    tasks_[id] = static_cast<int>(task);
  });
}

int QuestionTaskMap::task_of(const VqaRow& row) const {
  const auto place = tasks_.find(row.question_id);
  return place == tasks_.end() ? vqacl_task_of(row.question_type) : place->second;
}

bool has_partitions(const Preparation& preparation) {
  return !preparation.find(partition_names("train", 0)).empty();
}

void read_vqacl(Preparation& preparation, const std::string& split, const VqaRowUse& use) {
  if (!has_partitions(preparation)) {
    QuestionTaskMap map;
    map.read(preparation);
    read_official_vqa(preparation, split == "train" ? "train" : "val", [&](VqaRow& row, const RowPlace& place) {
      const int task = map.task_of(row);
      if (task < 0)
        return preparation.bad(place, std::to_string(row.question_id),
                               cat("question_type '", printable(row.question_type), "' is none of the 65"));
      row.task = static_cast<size_t>(task);
      use(row, place);
    });
    return;
  }
  for (size_t task = 0; task < vqacl_tasks().size(); ++task) {
    const auto names = partition_names(split, task);
    const auto path = preparation.find(names);
    if (path.empty() && split == "val") continue;
    if (!path.empty()) {
      read_partition(preparation, path, task, split == "train", use);
      continue;
    }
    check(vqacl_tasks()[task] == "judge", preparation.options().source, ": holds no ", names[0]);  // CLT-VQA has none
  }
}

bool ImageCategories::given(const Preparation& preparation) {
  return !preparation.find({"ImgId_cate_map.json", "instances_train2014.json", "annotations/instances_train2014.json"})
              .empty();
}

void ImageCategories::read(Preparation& preparation) {
  const auto path = preparation.find({"ImgId_cate_map.json"});
  if (!path.empty()) {
    preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
      if (!record.value.is_number_integer()) return preparation.bad(place, record.key, "is no image with its category");
      categories_[record.key] = record.value.get<int>();
    });
    return;
  }
  std::unordered_map<std::string, std::pair<int, double>> best;
  for (const char* split : {"train", "val"}) {
    const auto instances =
        preparation.need({cat("instances_", split, "2014.json"), cat("annotations/instances_", split, "2014.json")},
                         "ImgId_cate_map.json, and no instances of COCO in its place");
    std::unordered_map<int64_t, double> areas;  // image * 128 + category
    preparation.read(instances, [&](const FileRecord& record, const RowPlace& place) {
      if (record.key != "annotations" || record.in_map) return;
      const auto& v = record.value;
      int64_t image = 0, category = 0;
      if (!image_id_of(v, image) || !parse_int(text_of(v.value("category_id", json())), category) ||
          !v.value("area", json()).is_number())
        return preparation.bad(place, "", "needs image_id, category_id and area");
      if (image < 0 || image >= int64_t(1) << 48 || category < 0 || category > 127)
        return preparation.bad(place, std::to_string(image), "image_id or category_id is none of COCO's");
      areas[image * 128 + category] += v["area"].get<double>();
    });
    for (const auto& [key, area] : areas) {
      auto& entry = best[fmt::format("COCO_{}2014_{:012d}", split, key / 128)];
      const int category = static_cast<int>(key % 128);
      if (area > entry.second || (area == entry.second && category < entry.first)) entry = {category, area};
    }
  }
  for (const auto& [image, entry] : best) categories_[image] = entry.first;
  preparation.note(
      "no ImgId_cate_map.json: an image has the COCO category with the largest area, which is not VQACL's own map");
}

int ImageCategories::category_of(const std::string& image_key) const {
  const auto place = categories_.find(image_key);
  return place == categories_.end() ? -1 : place->second;
}

SampleRow sample_of(Preparation& preparation, VqaRow& row, bool with_references) {
  static const std::string mark = "COCO_";
  SampleRow out;
  out.id = std::to_string(row.question_id);
  const auto under = row.image_key.rfind('_');
  const auto folder = row.image_key.compare(0, mark.size(), mark) == 0 && under > mark.size()
                          ? row.image_key.substr(mark.size(), under - mark.size()) + "/"
                          : "";
  std::error_code error;  // train2014/NAME.jpg, or all in one folder
  const auto& images = preparation.images();
  const bool flat = preparation.options().check_images && !std::filesystem::is_directory(images + "/" + folder, error);
  out.image = (flat ? "" : folder) + row.image_key + ".jpg";
  out.question = trimmed(row.question);
  out.answer = trimmed(row.answer);
  if (with_references) out.references = std::move(row.answers);
  return out;
}

std::string vqa_metric(const Preparation& preparation) {
  return preparation.options().native ? "vqa_vqacl" : "vqa";
}

}  // namespace asr
