// Whether a stream measures forgetting: whether joint training learns what plain fine-tuning, at its own best setting,
// does not keep, and whether fine-tuning could learn it. docs/protocol.md has the reasons.
#pragma once

#include <string>
#include <vector>

#include "report/t_test.h"

namespace asr {

inline constexpr double kJointOverVanilla = 8, kJointOverZeroShot = 20, kLearntBelowJoint = 5;

// Scores on the reported split, one a seed, in the order of the seeds.
struct AdmissionScores {
  std::vector<double> zero_shot;                            // AP before any training
  std::vector<double> vanilla_ap, vanilla_af, vanilla_mft;  // at the setting with the best AP on tune
  std::vector<double> joint_ap;                             // the same
  std::vector<double> best_mft;                             // vanilla's MFT at the setting with the best MFT on tune
};

struct Admission {
  MeanTest zero_shot, vanilla_ap, vanilla_af, vanilla_mft, joint_ap, best_mft;
  MeanTest over_vanilla, over_zero_shot, learnt;  // joint - vanilla, joint - zero-shot, best MFT - joint: paired
  std::vector<std::string> missing;               // what speaks against it; none: admitted
  bool admitted() const { return missing.empty(); }
};

Admission judge_admission(const AdmissionScores& scores);

}  // namespace asr
