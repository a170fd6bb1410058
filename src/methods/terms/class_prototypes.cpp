#include "methods/terms/class_prototypes.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace asr {
namespace {

torch::Tensor nonzero_rows(const torch::Tensor& rows) {
  return rows.ne(0).any(1);
}

}  // namespace

void ClassPrototypes::add(const std::string& label) {
  if (row_of(label) >= 0) return;
  labels_.push_back(label);
  if (rows_.defined()) rows_ = at::cat({rows_, at::zeros({1, rows_.size(1)}, rows_.options())});
}

int64_t ClassPrototypes::row_of(const std::string& label) const {
  const auto place = std::find(labels_.begin(), labels_.end(), label);
  return place == labels_.end() ? -1 : place - labels_.begin();
}

bool ClassPrototypes::known() const {
  return rows_.defined() && rows_.ne(0).any().item<bool>();
}

torch::Tensor ClassPrototypes::sums(const torch::Tensor& vectors, const std::vector<std::string>& labels) const {
  std::vector<int64_t> classes;
  for (const auto& label : labels) classes.push_back(row_of(label));
  const auto row = torch::tensor(classes, at::kLong).to(vectors.device());
  const auto counts = row.ge(0).logical_and(nonzero_rows(vectors)).to(at::kDouble).unsqueeze(1);  // [B, 1]
  const auto each = at::cat({vectors.to(at::kDouble) * counts, counts}, 1);
  return at::zeros({size(), vectors.size(1) + 1}, each.options()).index_add(0, row.clamp_min(0), each);
}

torch::Tensor ClassPrototypes::updated(const torch::Tensor& sums, const torch::Tensor& keep, bool exact) const {
  const auto counts = sums.narrow(1, sums.size(1) - 1, 1);
  const auto means = (sums.narrow(1, 0, sums.size(1) - 1) / counts.clamp_min(1)).to(at::kFloat);
  if (!rows_.defined()) return means;
  const auto share = keep.to(rows_.device(), at::kFloat).unsqueeze(1);
  const auto moved = rows_ * share + means * (1 - share);
  if (exact) return moved;
  const auto met = at::where(nonzero_rows(rows_).unsqueeze(1), moved, means);
  return at::where(counts.gt(0), met, rows_);
}

void ClassPrototypes::state(StateVisitor& visitor) {
  auto text = nlohmann::json(labels_).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  visitor.text(name_ + ".classes", StateKind::statistics, text);
  visitor.tensor(name_ + ".rows", StateKind::statistics, rows_);
  const auto list = parse_json(text, "classes of the stored prototypes");
  const bool texts =
      list.is_array() && std::all_of(list.begin(), list.end(), [](const auto& t) { return t.is_string(); });
  check(texts, "the stored prototypes are damaged: their classes are no list of texts");
  labels_ = list.get<std::vector<std::string>>();
  const bool fits = !rows_.defined() || (rows_.dim() == 2 && rows_.size(0) == size());
  check(fits, "the stored prototypes are damaged: ", size(), " classes have rows ", rows_.sizes());
}

torch::Tensor nearest_rows(const torch::Tensor& rows, const torch::Tensor& vectors, bool zeros) {
  constexpr double kSmall = 1e-12;
  const auto unit = [&](const torch::Tensor& t) {
    const auto bounded = t.to(at::kFloat).tanh();
    return bounded / bounded.norm(2, 1, true).clamp_min(kSmall);
  };
  auto cosines = unit(vectors).mm(unit(rows).t());  // [B, classes]
  if (!zeros)
    cosines =
        cosines.masked_fill(nonzero_rows(rows).logical_not().unsqueeze(0), -std::numeric_limits<float>::infinity());
  return rows.index_select(0, cosines.argmax(1)) * nonzero_rows(vectors).unsqueeze(1);
}

}  // namespace asr
