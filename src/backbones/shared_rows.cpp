#include "backbones/shared_rows.h"

#include <algorithm>
#include <map>
#include <string>

namespace asr {
namespace {

// The weights that experts get in each row, as bytes; the same in all rows where they are given for the batch.
std::vector<std::string> given_bytes(const Pass& pass, int64_t rows) {
  std::vector<std::string> out(static_cast<size_t>(rows));
  if (!pass.given) return out;
  for (const auto& [slot, weights] : *pass.given) {
    if (weights.dim() < 2 || weights.size(0) != rows) continue;
    const auto own = weights.cpu().contiguous();
    const auto bytes = own.nbytes() / static_cast<size_t>(rows);
    for (size_t row = 0; row < out.size(); ++row)
      out[row].append(static_cast<const char*>(own.data_ptr()) + row * bytes, bytes);
  }
  return out;
}

RowGroups every_row_alone(int64_t rows) {
  RowGroups out;
  for (int64_t row = 0; row < rows; ++row) {
    out.leads.push_back(row);
    out.group.push_back(row);
  }
  return out;
}

// A prompt inside its right-aligned row.
struct Prompt {
  const int64_t* ids = nullptr;
  int64_t length = 0;
  int64_t pictures_end = 0;  // behind its last image token; 0: it has none
};

std::vector<Prompt> prompts_of(const torch::Tensor& ids, const torch::Tensor& mask, int64_t image_token) {
  std::vector<Prompt> out;
  const int64_t longest = ids.size(1);
  for (int64_t b = 0; b < ids.size(0); ++b) {
    const bool* real = mask.data_ptr<bool>() + b * longest;
    Prompt prompt;
    prompt.length = std::count(real, real + longest, true);
    prompt.ids = ids.data_ptr<int64_t>() + (b + 1) * longest - prompt.length;
    for (int64_t i = 0; i < prompt.length; ++i)
      if (prompt.ids[i] == image_token) prompt.pictures_end = i + 1;
    out.push_back(prompt);
  }
  return out;
}

// How many tokens the prompts of each group begin with alike; -1 where one has a picture behind them.
std::vector<int64_t> prefix_lengths(const std::vector<Prompt>& prompts, const RowGroups& groups) {
  std::vector<int64_t> out(groups.leads.size(), -1);
  std::vector<bool> alone(groups.leads.size(), true);
  for (size_t row = 0; row < prompts.size(); ++row) {
    const auto g = static_cast<size_t>(groups.group[row]);
    const auto& lead = prompts[static_cast<size_t>(groups.leads[g])];
    const auto& own = prompts[row];
    if (&own == &lead) {
      out[g] = lead.length - 1;
      continue;
    }
    alone[g] = false;
    int64_t same = 0;
    while (same < std::min(out[g], own.length - 1) && own.ids[same] == lead.ids[same]) ++same;
    out[g] = std::min(out[g], same);
  }
  for (size_t g = 0; g < out.size(); ++g)
    if (alone[g]) out[g] = std::min(out[g], prompts[static_cast<size_t>(groups.leads[g])].pictures_end);
  for (size_t row = 0; row < prompts.size(); ++row) {
    auto& length = out[static_cast<size_t>(groups.group[row])];
    if (prompts[row].pictures_end > length) length = -1;
  }
  return out;
}

}  // namespace

RowGroups groups_of(const Batch& batch, const Pass& pass) {
  const int64_t rows = batch.size();
  const bool known = batch.same_picture.size() == static_cast<size_t>(rows) && batch.pixels.defined();
  if (!known || at::GradMode::is_enabled() || batch.instruction.defined() || pass.observer)
    return every_row_alone(rows);
  const auto given = given_bytes(pass, rows);
  std::map<std::pair<int64_t, std::string>, int64_t> found;
  RowGroups out;
  for (int64_t row = 0; row < rows; ++row) {
    const auto i = static_cast<size_t>(row);
    const auto [place, fresh] =
        found.emplace(std::make_pair(batch.same_picture[i], given[i]), static_cast<int64_t>(out.leads.size()));
    if (fresh) out.leads.push_back(row);
    out.group.push_back(place->second);
  }
  return out;
}

SharedPrefix shared_prefix(const torch::Tensor& ids, const torch::Tensor& mask, const RowGroups& groups,
                           int64_t image_token) {
  if (!groups.shared()) return {};
  const auto here = ids.cpu().contiguous(), real = mask.cpu().contiguous();
  const auto prompts = prompts_of(here, real, image_token);
  const auto lengths = prefix_lengths(prompts, groups);
  const int64_t rows = here.size(0), count = static_cast<int64_t>(lengths.size());
  const int64_t prefix = *std::max_element(lengths.begin(), lengths.end());
  if (prefix < 1 || *std::min_element(lengths.begin(), lengths.end()) < 0) return {};
  int64_t suffix = 0;
  for (size_t row = 0; row < prompts.size(); ++row)
    suffix = std::max(suffix, prompts[row].length - lengths[static_cast<size_t>(groups.group[row])]);
  if (count * prefix + rows * suffix >= rows * here.size(1)) return {};
  auto prefix_ids = at::zeros({count, prefix}, at::kLong);
  auto prefix_mask = at::zeros({count, prefix}, at::kBool), suffix_mask = at::zeros({rows, suffix}, at::kBool);
  for (int64_t g = 0; g < count; ++g) {
    const auto& lead = prompts[static_cast<size_t>(groups.leads[static_cast<size_t>(g)])];
    const int64_t length = lengths[static_cast<size_t>(g)];
    std::copy_n(lead.ids, length, prefix_ids.data_ptr<int64_t>() + (g + 1) * prefix - length);
    std::fill_n(prefix_mask.data_ptr<bool>() + (g + 1) * prefix - length, length, true);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const auto i = static_cast<size_t>(row);
    const int64_t left = prompts[i].length - lengths[static_cast<size_t>(groups.group[i])];
    std::fill_n(suffix_mask.data_ptr<bool>() + (row + 1) * suffix - left, left, true);
  }
  return {prefix_ids.to(ids.device()), prefix_mask.to(ids.device()), suffix_mask.to(ids.device())};
}

}  // namespace asr
