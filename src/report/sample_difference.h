// How sure a difference in AP is when there are too few runs to ask them: by resampling the validation questions that
// both runs answered after the last stage. This covers the choice of questions, not the luck of a seed or an order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/intervals.h"
#include "report/run.h"

namespace asr {

struct SampleDifference {
  Interval interval;  // of AP in points; unknown when the predictions cannot give one
  std::string note;   // why not, or what was left out
};

SampleDifference sample_difference(const std::vector<std::pair<const Run*, const Run*>>& pairs);

}  // namespace asr
