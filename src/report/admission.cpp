#include "report/admission.h"

#include <fmt/format.h>

#include "base/text.h"

namespace asr {
namespace {

MeanTest paired_difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) out.push_back(a[i] - b[i]);
  return paired_t(out);
}

MeanTest difference_of_means(const std::vector<double>& a, const std::vector<double>& b) {
  MeanTest out;
  out.mean = paired_t(a).mean - paired_t(b).mean;
  return out;
}

}  // namespace

Admission judge_admission(const AdmissionScores& scores) {
  Admission out;
  out.zero_shot = paired_t(scores.zero_shot);
  out.vanilla_ap = paired_t(scores.vanilla_ap);
  out.vanilla_af = paired_t(scores.vanilla_af);
  out.vanilla_mft = paired_t(scores.vanilla_mft);
  out.joint_ap = paired_t(scores.joint_ap);
  out.best_mft = paired_t(scores.best_mft);
  out.over_vanilla = paired_difference(scores.joint_ap, scores.vanilla_ap);
  out.over_zero_shot = paired_difference(scores.joint_ap, scores.zero_shot);
  out.learnt = scores.mft_paired ? paired_difference(scores.best_mft, scores.joint_ap)
                                 : difference_of_means(scores.best_mft, scores.joint_ap);
  // Negated comparisons, so that a score that is missing speaks against the stream.
  if (!(out.over_vanilla.mean >= kJointOverVanilla))
    out.missing.push_back(fmt::format("joint is {:+.1f} AP from vanilla, at least {:+.0f} is needed",
                                      out.over_vanilla.mean, kJointOverVanilla));
  if (!(out.over_zero_shot.mean >= kJointOverZeroShot))
    out.missing.push_back(fmt::format("joint is {:+.1f} AP from zero-shot, at least {:+.0f} is needed",
                                      out.over_zero_shot.mean, kJointOverZeroShot));
  if (!(out.learnt.mean >= -kLearntBelowJoint))
    out.missing.push_back(fmt::format("vanilla's best MFT is {:+.1f} from joint's AP, at least {:+.0f} is needed",
                                      out.learnt.mean, -kLearntBelowJoint));
  return out;
}

std::string AdmissionVerdict::text() const {
  return admission.admitted() ? "admitted" : "not admitted: " + join(admission.missing, "; ");
}

}  // namespace asr
