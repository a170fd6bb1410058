// clt-vqa: nine question types of VQA v2 with long-tailed training sets. The subsets of the benchmark were never
// released, so they are built here: within a task the j-th most frequent class keeps n_max * rho^(-j/(C-1)) of its
// rows, chosen by a seeded hash. Classes are answers or, in the variant `concepts`, the categories of images. Val is
// untouched. Tasks, groups and their order are those of the benchmark's code.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "streams/prepare/concept_groups.h"
#include "streams/prepare/vqa_rows.h"

namespace asr {
namespace {

using nlohmann::json;

// VQACL's tasks by index, in the order of CLT-VQA; judge is left out.
constexpr size_t kTasks[9] = {0, 4, 6, 8, 5, 3, 7, 1, 9};

struct Class {
  std::vector<uint64_t> hashes;  // of its training rows
  uint64_t last = 0;             // rows up to this hash are kept
  int64_t kept = 0;
  const char* part = "";
};
using Classes = std::map<std::string, Class>;

class LongTail {
 public:
  explicit LongTail(Preparation& preparation) : preparation_(preparation) {
    by_concept_ = preparation.variant() == "concepts";
    grouped_ = ImageCategories::given(preparation);
    if (by_concept_ || grouped_) categories_.read(preparation);
    preparation.look([&] {
      read_vqacl(preparation, "train", [&](VqaRow& row, const RowPlace&) {
        const int task = task_of(row);
        if (task >= 0 && (!grouped_ || group_of(row) >= 0))
          classes_[static_cast<size_t>(task)][class_of(row)].hashes.push_back(hash_of(row));
      });
    });
    for (size_t task = 0; task < 9; ++task) cut(task);
  }

  static int task_of(const VqaRow& row) {
    const auto found = std::find(std::begin(kTasks), std::end(kTasks), row.task);
    return found == std::end(kTasks) ? -1 : static_cast<int>(found - std::begin(kTasks));
  }
  bool grouped() const { return grouped_; }
  int category_of(const VqaRow& row) const { return categories_.category_of(row.image_key); }
  int group_of(const VqaRow& row) const { return concept_group_of(GroupTable::vqav2, category_of(row)); }
  bool keeps(const VqaRow& row, size_t task) const {
    const auto place = classes_[task].find(class_of(row));
    return place != classes_[task].end() && place->second.kept > 0 && hash_of(row) <= place->second.last;
  }
  std::string part_of(const VqaRow& row, size_t task) const {
    const auto place = classes_[task].find(class_of(row));
    return place == classes_[task].end() || place->second.kept == 0 ? "unseen" : place->second.part;
  }

 private:
  std::string class_of(const VqaRow& row) const {
    return by_concept_ ? std::to_string(categories_.category_of(row.image_key)) : row.answer;
  }
  uint64_t hash_of(const VqaRow& row) const {
    return Random({static_cast<uint64_t>(preparation_.options().seed), 0xc17, static_cast<uint64_t>(row.question_id)})
        .next();
  }
  void cut(size_t task) {
    std::vector<std::pair<const std::string*, Class*>> order;
    for (auto& [name, entry] : classes_[task])
      if (static_cast<int64_t>(entry.hashes.size()) >= preparation_.options().min_count)
        order.emplace_back(&name, &entry);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second->hashes.size() > b.second->hashes.size(); });
    if (order.empty()) return;
    const auto most = static_cast<double>(order[0].second->hashes.size());
    const double steps = std::max<double>(1, static_cast<double>(order.size()) - 1);
    json counts = {{"classes", order.size()}};
    for (size_t j = 0; j < order.size(); ++j) {
      auto& entry = *order[j].second;
      const double wanted = most * std::pow(preparation_.options().imbalance, -static_cast<double>(j) / steps);
      const auto count = std::min(entry.hashes.size(), static_cast<size_t>(std::max(1.0, std::floor(wanted))));
      std::sort(entry.hashes.begin(), entry.hashes.end());
      entry.last = entry.hashes[count - 1];
      entry.kept = static_cast<int64_t>(count);
      entry.part = 3 * j < order.size() ? "head" : 3 * j < 2 * order.size() ? "medium" : "tail";
      counts[entry.part] = counts.value(entry.part, int64_t(0)) + entry.kept;
    }
    preparation_.detail("train of " + vqacl_tasks()[kTasks[task]], counts);
  }

  Preparation& preparation_;
  bool by_concept_ = false, grouped_ = false;
  ImageCategories categories_;
  std::array<Classes, 9> classes_;
};

}  // namespace

void prepare_clt_vqa(Preparation& preparation) {
  preparation.choose_variant({"answers", "concepts"});
  check(preparation.options().imbalance >= 1, "--imbalance must be at least 1");
  for (const size_t task : kTasks) preparation.add_task({vqacl_tasks()[task], vqa_metric(preparation), 16, {}});
  preparation.unit("all", [&] {
    const LongTail tail(preparation);
    for (size_t i = 0; tail.grouped() && i < 9; ++i) preparation.nest(i, inner_order(GroupTable::vqav2, i));
    if (!tail.grouped())
      preparation.note("no ImgId_cate_map.json: rows have no concept group, and a task is trained as a whole");
    const auto read = [&](const char* part, DataSplit split) {
      std::map<std::string, std::map<std::string, int64_t>> parts;
      read_vqacl(preparation, part, [&](VqaRow& row, const RowPlace& place) {
        const int task = LongTail::task_of(row);
        if (task < 0) return preparation.drop("judge questions, which the benchmark leaves out");
        const auto index = static_cast<size_t>(task);
        if (tail.grouped() && tail.group_of(row) < 0)
          return preparation.drop("image without a category of the five groups, as the benchmark's code does");
        if (split == DataSplit::train && !tail.keeps(row, index))
          return preparation.drop("training rows above the long tail");
        auto sample = sample_of(preparation, row, true);
        sample.part = tail.part_of(row, index);
        if (tail.grouped()) {
          sample.concept_group = concept_group_name(GroupTable::vqav2, tail.group_of(row));
          sample.category = std::to_string(tail.category_of(row));
        }
        ++parts[vqacl_tasks()[kTasks[index]]][sample.part];
        preparation.add(index, split, std::move(sample), place);
      });
      if (split == DataSplit::val)
        for (const auto& [task, counts] : parts) preparation.detail("val of " + task, counts);
    };
    read("train", DataSplit::train);
    read("test", DataSplit::val);
    if (has_partitions(preparation)) read("val", DataSplit::tune);
    preparation.note(
        "the benchmark's own long-tailed subsets are unreleased: these are built by the rule in docs/streams.md");
  });
}

}  // namespace asr
