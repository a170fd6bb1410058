// Student's t for a handful of seeds: paired differences within a setting, the mean over settings with its error from
// the seeds within them, and Holm's correction over the contrasts that were fixed beforehand.
#pragma once

#include <vector>

#include "report/intervals.h"

namespace asr {

// Of |T| >= |t| with T of Student's distribution; NaN without degrees of freedom.
double two_sided_p(double t, double freedom);
// The t whose two-sided p is `p`: 2.571 for 0.05 and 5.
double critical_t(double p, double freedom);

struct MeanTest {
  int n = 0;           // values, or settings
  double mean;         // NaN without any
  double error;        // standard error of the mean; NaN where it is not known
  double freedom = 0;  // degrees of freedom of that error
  double p;            // two-sided, against 0; NaN without an error
  Interval interval;   // 95 %
  MeanTest() : mean(kUnknown), error(kUnknown), p(kUnknown) {}
};

// Of differences over seeds, against 0. Equal differences have no error to go by: p is NaN.
MeanTest paired_t(const std::vector<double>& differences);

struct OverallTest : MeanTest {
  int agree = 0;  // settings whose own mean has the sign of the overall mean
};

// The mean of the settings' means. Settings are fixed, seeds are what could have been others: the error is
// sqrt(sum s_i^2 / n_i) / k, its degrees of freedom by Welch and Satterthwaite.
OverallTest overall_t(const std::vector<std::vector<double>>& settings);

// Adjusted p values, in the order given. One that is NaN (no test could be made) stays so, and still counts.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace asr
