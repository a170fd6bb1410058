#include "streams/published_sizes.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

// Questions of a picture have types of their own: a task has as many of them as chance puts there. In a tenth of VQA v2
// two questions about a picture are of one type hardly more often (0.25 against 0.23 of independent ones).
std::vector<PublishedTask> evenly(const std::vector<std::string>& names, int64_t train, int64_t scored,
                                  int64_t pictures) {
  std::vector<PublishedTask> out;
  const auto count = static_cast<int64_t>(names.size());
  for (int64_t i = 0; i < count; ++i)
    out.push_back({names[static_cast<size_t>(i)], train * (i + 1) / count - train * i / count,
                   scored * (i + 1) / count - scored * i / count, pictures});
  return out;
}

const std::vector<std::string> kVqaclTasks = {"q_recognition", "q_location", "q_judge", "q_commonsense", "q_count",
                                              "q_action",      "q_color",    "q_type",  "q_subcategory", "q_causal"};

PublishedSizes vqav2() {
  PublishedSizes out;
  // 5,000 of the 40,504 validation pictures are set aside for tuning.
  out.tasks = evenly(
      {"count", "color", "locate", "comparison", "attribute", "activity", "existence", "read", "object", "other"},
      443757, 214354 - 214354 * 5000 / 40504, 40504 - 5000);
  out.note = "official totals of VQA v2 (443,757 and 214,354, less 5,000 pictures for tuning), shared out evenly";
  return out;
}

PublishedSizes vqacl() {
  PublishedSizes out;
  // 11,348 of 122,218 pictures have a category outside the five groups and are dropped, as released.
  const auto kept = [](int64_t questions) { return questions - questions * 11348 / 122218; };
  out.tasks = evenly(kVqaclTasks, kept(605102), kept(26280), kept(5000));
  out.note = "Karpathy's split of VQA v2 (605,102 and 26,280), less the 9 % of pictures outside the groups, evenly";
  return out;
}

PublishedSizes nextqa() {
  PublishedSizes out;
  out.tasks = {{"CW", 13552, 3333}, {"TN", 5685, 1399}, {"TC", 4797, 1165}, {"DL", 1942, 482},
               {"DB", 2928, 495},   {"DC", 1378, 365},  {"DO", 2549, 672},  {"CH", 4400, 1174}};
  out.verified = true;
  for (auto& task : out.tasks) task.pictures = 1000;  // videos of test
  out.note = "rows of NExT-QA's files; train and test";
  out.height = 360;
  out.width = 4 * 640;  // four frames side by side
  return out;
}

PublishedSizes clt_vqa() {
  PublishedSizes out;
  auto names = kVqaclTasks;
  names.erase(names.begin() + 2);  // q_judge
  out.tasks = evenly(names, 605102 * 9 / 10, 26280 * 9 / 10, 5000);
  out.note = "the long-tailed subsets are not published; nine tenths of Karpathy's split, an upper bound";
  return out;
}

PublishedSizes coin() {
  PublishedSizes out;
  // Of OCR-VQA's 207,572 pictures a tenth. Expressions of a picture of Grounding are taken for one.
  out.tasks = {{"ScienceQA", 12726, 4241},      {"TextVQA", 34602, 5000, 3166},    {"ImageNet", 129833, 5050},
               {"GQA", 72140, 12578, 398},      {"VizWiz", 20523, 4319},           {"Grounding", 55885, 30969},
               {"VQAv2", 82783, 214354, 40504}, {"OCR-VQA", 165348, 100037, 20757}};
  out.note = "sizes of the source data sets and their splits, not read in CoIN's own files; your counts may differ";
  out.text_tokens = 80;
  out.new_tokens = 16;
  return out;
}

PublishedSizes ucit() {
  PublishedSizes out;
  out.tasks = {{"ImageNet-R", 24000, 3000}, {"ArxivQA", 40000, 3000},    {"VizWiz-caption", 40000, 3000},
               {"IconQA", 30000, 3000},     {"CLEVR-Math", 40000, 3000}, {"Flickr30k", 40000, 3000}};
  out.note = "tests of 3,000 and train files named '4w' (40,000); those of ImageNet-R, VizWiz and IconQA are assumed";
  out.text_tokens = 80;
  out.new_tokens = 24;
  return out;
}

}  // namespace

double questions_a_picture(const PublishedTask& task) {
  if (task.pictures == 0) return 1;
  const auto asked = static_cast<double>(task.scored), pictures = static_cast<double>(task.pictures);
  return asked / (pictures * -std::expm1(-asked / pictures));
}

PublishedSizes published_sizes(const std::string& stream, const std::string& path) {
  const auto base = stream.substr(0, stream.find(':'));
  if (base == "vqav2-10") return vqav2();
  if (base == "vqacl") return path.find("next") != std::string::npos ? nextqa() : vqacl();
  if (base == "clt-vqa") return clt_vqa();
  if (base == "coin") return coin();
  if (base == "ucit") return ucit();
  fail("no published sizes of a stream '", printable(stream), "'",
       did_you_mean(base, {"vqav2-10", "vqacl", "clt-vqa", "coin", "ucit"}));
}

}  // namespace asr
