// What was found, in a sentence: how much of what it learnt the best label keeps, how much plain fine-tuning, and what
// joint training reaches.
#pragma once

#include <string>

#include "report/compare.h"

namespace asr {

// The final scores of the earlier tasks as percent of their scores when just learnt. The last task had no time to be
// forgotten and does not count; NaN without an earlier one, or where none was learnt at all.
double kept_percent(const Run& run);
Spread kept_percent(const Group& group);

// By AP, among complete runs with stages. Null where there is none.
struct Answer {
  const Group* best = nullptr;       // of the replay-free ones; of all where there is no other
  const Group* baseline = nullptr;   // what others are compared with
  const Group* with_data = nullptr;  // keeps old data and is better than `best`
  const Group* joint = nullptr;
};
Answer answer_of(const ComparisonTable& table);

std::string answer_sentence(const ComparisonTable& table);

}  // namespace asr
