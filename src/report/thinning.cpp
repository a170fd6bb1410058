#include "report/thinning.h"

#include <cmath>

namespace asr {
namespace {

constexpr size_t kPoints = 200;

}  // namespace

Series thinned(const LossLog& log, const std::vector<double>& values) {
  Series out;
  const size_t bucket = (values.size() + kPoints - 1) / kPoints;
  auto boundary = log.boundaries.begin();
  for (size_t begin = 0; begin < values.size();) {
    for (; boundary != log.boundaries.end() && *boundary <= log.step[begin]; ++boundary) {
      out.x.push_back(*boundary);
      out.y.push_back(NAN);
    }  // the line ends with its stage
    double sum = 0, steps = 0;
    size_t count = 0, end = begin;
    for (; end < values.size() && end < begin + bucket; ++end) {
      if (boundary != log.boundaries.end() && log.step[end] >= *boundary) break;
      steps += log.step[end];
      if (std::isfinite(values[end])) {
        sum += values[end];
        ++count;
      }
    }
    out.x.push_back(steps / static_cast<double>(end - begin));
    out.y.push_back(count ? sum / static_cast<double>(count) : NAN);
    begin = end;
  }
  return out;
}

}  // namespace asr
