// Is a method more than a lower learning rate? AP and AF against MFT over all points of a search, and the baseline's
// curve over its rates: a method that lies on it buys what it keeps with what it does not learn.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/t_test.h"

namespace asr {

struct CurvePoint {
  std::string label, point;  // "ewc", "learning_rate=0.002,ewc.lambda=100"; no point outside of a search
  std::string family;        // what is the same along a curve over rates
  double rate = kUnknown, mft = kUnknown, af = kUnknown;
  MeanTest ap;  // over seeds
};

// The groups in the table's order, those of a search named LABEL:POINT; joint training has no MFT and is left out.
std::vector<CurvePoint> curve_points(const ComparisonTable& table);
bool is_search(const ComparisonTable& table);

// The best AP that the baseline reaches at this MFT, along the lines between neighbouring rates of each family; NaN
// outside of them all.
double curve_at(const std::vector<CurvePoint>& curve, double mft);

enum class CurvePlace { unknown, on, above, below };
struct BrakeVerdict {
  CurvePlace place = CurvePlace::unknown;
  double over = kUnknown;  // AP minus the curve's
};
// On the curve: its value lies within the 95 % interval of the point's AP.
BrakeVerdict judge_brake(const std::vector<CurvePoint>& curve, const CurvePoint& point);

// None without a curve, of two points or more. For each label the point with most seeds and, of those, the best AP: the
// one that the protocol chose.
struct BrakeRow {
  CurvePoint point;
  BrakeVerdict verdict;
  std::string words(const std::string& baseline) const;
};
std::vector<BrakeRow> brake_rows(const ComparisonTable& table, const std::string& baseline);

std::string braking_csv(const ComparisonTable& table, const std::string& baseline);

}  // namespace asr
