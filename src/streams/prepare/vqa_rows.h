// Questions of VQA v2, from the official pair of questions and annotations or from VQACL's partition files, with the
// tables that VQACL and the paper sort them by (docs/streams.md).
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "streams/prepare/preparation.h"

namespace asr {

struct VqaRow {
  int64_t question_id = 0;
  std::string image_key;  // COCO_train2014_000000458752
  std::string question, question_type, answer;
  std::vector<std::string> answers;  // one an annotator
  size_t task = 0;                   // of VQACL, where the file says it
};
using VqaRowUse = std::function<void(VqaRow& row, const RowPlace& place)>;

// The official files of "train" or "val". Every question needs its annotation and the other way round.
void read_official_vqa(Preparation& preparation, const std::string& split, const VqaRowUse& use);

// VQACL's ten tasks, in their order, without the "q_".
const std::vector<std::string>& vqacl_tasks();
// The task of a question type by the table of prefixes, or -1.
int vqacl_task_of(const std::string& question_type);

// The map from question to task that VQACL releases, where the source has it.
class QuestionTaskMap {
 public:
  void read(Preparation& preparation);
  int task_of(const VqaRow& row) const;  // falls back on the question type; -1: neither knows it
  bool given() const { return !tasks_.empty(); }

 private:
  std::unordered_map<int64_t, int> tasks_;
};

// Rows of VQACL: partition files where the source has them, else the official files. `split` is train, val or test;
// official files have no third part, and "test" is then their val.
bool has_partitions(const Preparation& preparation);
void read_vqacl(Preparation& preparation, const std::string& split, const VqaRowUse& use);

// Category of an image, from ImgId_cate_map.json, or from COCO's instance files (the category with the largest area).
class ImageCategories {
 public:
  static bool given(const Preparation& preparation);
  void read(Preparation& preparation);
  int category_of(const std::string& image_key) const;  // -1: unknown

 private:
  std::unordered_map<std::string, int> categories_;
};

SampleRow sample_of(Preparation& preparation, VqaRow& row, bool with_references);
std::string vqa_metric(const Preparation& preparation);

}  // namespace asr
