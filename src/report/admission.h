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
  bool mft_paired = true;  // best_mft is of the seeds of joint_ap; no: of other runs, so that means alone are compared
};

struct Admission {
  MeanTest zero_shot, vanilla_ap, vanilla_af, vanilla_mft, joint_ap, best_mft;
  MeanTest over_vanilla, over_zero_shot, learnt;  // joint - vanilla, joint - zero-shot, best MFT - joint
  std::vector<std::string> missing;               // what speaks against it; none: admitted
  bool admitted() const { return missing.empty(); }
};

Admission judge_admission(const AdmissionScores& scores);

// What was tried under one label.
struct AdmissionSearch {
  std::string label;
  std::vector<double> rates, epochs;  // ascending
  size_t points = 0, runs = 0;
  size_t fewest_seeds = 0, most_seeds = 0;  // of tuning, at a point
};

// A stream that was judged, and what the numbers are of.
struct AdmissionVerdict {
  std::string stream, backbone, split;
  std::string vanilla, joint, learnt;  // chosen on tune: by AP, by AP, by MFT
  std::string learnt_split;            // where the best MFT was measured: `split`, or tune
  Admission admission;
  MeanTest outside;  // vanilla's wrong answers that are none of their task's, percent
  size_t runs = 0, seeds = 0;
  std::string table;                      // of runs that were there already; empty: the command made them
  std::vector<AdmissionSearch> searched;  // of such a table
  std::vector<std::string> notes;

  std::string text() const;  // "admitted", or what is missing
};

}  // namespace asr
