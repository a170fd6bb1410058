// The contrasts that a protocol names, over all settings there are: paired t within each, the mean over them, and where
// they were fixed beforehand as primary, Holm's correction over the contrasts. Beside them, what was chosen for each
// row, and whether it is a brake.
#pragma once

#include <string>
#include <vector>

#include "report/protocol.h"
#include "report/t_test.h"

namespace asr {

struct ComparisonTable;
struct Group;

struct SettingContrast {
  std::string setting;  // the title of its table
  MeanTest test;        // of the difference in AP
};

struct ContrastResult {
  Contrast contrast;
  std::vector<SettingContrast> settings;
  OverallTest overall;
  double adjusted = kUnknown;  // the overall p by Holm; NaN where the contrasts are exploratory
  std::string words;           // better, worse, no difference seen, not tested, not measured; settings that disagree
  bool significant() const { return adjusted < 0.05; }
};

// Of the tables that are reported; those of the search take no part.
std::vector<ContrastResult> contrast_results(const std::vector<ComparisonTable>& tables, const Protocol& protocol);

// "better", "worse" or "no difference seen" by an interval of a difference in AP; "not tested" where there is none.
std::string in_words(const MeanTest& test, bool differs);

// What a label was run with: one value over its runs, or "several".
struct RowSettings {
  std::string rate, strength, epochs;
  double parameters = kUnknown, bytes = kUnknown, passes = kUnknown;
};
RowSettings row_settings(const Group& group);

}  // namespace asr
