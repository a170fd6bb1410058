// Whether a stream measures forgetting, judged from runs that are there already. They are labelled as `asr tune
// --protocol` and `asr admit` label them: ROW:POINT on the split tune, ROW or ROW:POINT where a point was tested.
#pragma once

#include <string>
#include <vector>

#include "report/admission.h"
#include "report/run.h"

namespace asr {

struct AdmissionMethods {
  std::string vanilla, joint;
};

// Vanilla is the row of that name, and rows of that method which train as many numbers; joint is every row of its
// method. Each is taken at the best setting of them all. What is missing is an error that names `table`.
AdmissionVerdict judge_runs(const std::vector<Run>& runs, const std::string& table, const AdmissionMethods& methods);

}  // namespace asr
