#include "report/figures.h"

#include <algorithm>

#include "base/text.h"
#include "report/markup.h"

namespace asr {

const std::vector<FigureEntry>& all_figures() {
  static const std::vector<FigureEntry> figures = {
#define FIGURE(name, title) {#name, title, figure_##name},
#include "report/figures.def"
#undef FIGURE
  };
  return figures;
}

Figure not_drawn(const Error& error, std::vector<std::string>& unread) {
  note_unread({error.what()}, unread);
  return missing(cat("Not shown: ", error.what()));
}

void note_unread(const std::vector<std::string>& lines, std::vector<std::string>& unread) {
  for (const auto& line : lines)
    if (std::find(unread.begin(), unread.end(), line) == unread.end()) unread.push_back(line);
}

void LeftOut::add(const std::string& label, const std::string& reason) {
  auto place = std::find_if(labels_.begin(), labels_.end(), [&](const auto& entry) { return entry.first == reason; });
  if (place == labels_.end()) place = labels_.insert(labels_.end(), {reason, {}});
  place->second.push_back(shortened(label, 60));
}

std::string LeftOut::html() const {
  std::string out;
  for (const auto& [reason, labels] : labels_) out += missing("Not shown for " + join(labels, ", ") + ": " + reason);
  return out;
}

std::vector<StyledGroup> styled_groups(const ComparisonTable& table) {
  std::vector<StyledGroup> out;
  for (const auto& group : table.groups)
    if (!group.zero_shot) out.push_back({&group, table.style_of(group.label)});
  return out;
}

std::vector<StyledGroup> continual_groups(const ComparisonTable& table) {
  std::vector<StyledGroup> out;
  for (const auto& styled : styled_groups(table))
    if (!styled.group->joint) out.push_back(styled);
  return out;
}

std::vector<std::pair<std::string, int>> legend_entries(const std::vector<StyledGroup>& groups) {
  std::vector<std::pair<std::string, int>> out;
  for (const auto& [group, style] : groups) out.emplace_back(group->label, style);
  return out;
}

bool same_value(const std::string& a, const std::string& b) {
  double x = 0, y = 0;
  return a == b || (parse_double(a, x) && parse_double(b, y) && x == y);
}

const Run& first_run(const Group& group) {
  return *group.runs[0];
}

std::string of_which_run(const ComparisonTable& table) {
  const auto several = [](const Group& group) { return group.runs.size() > 1; };
  const bool any = std::any_of(table.groups.begin(), table.groups.end(), several);
  return any ? " Of several runs of a label, the one of the lowest order and seed is shown." : "";
}

}  // namespace asr
