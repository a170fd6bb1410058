#include "report/braking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"

namespace asr {
namespace {

double mean_metric(const Group& group, const std::string& metric) {
  std::vector<double> values;
  for (const Run* run : group.runs) values.push_back(run->score(metric));
  return spread_of(values).mean;
}

// The point's name without its rate.
std::string family_of(const std::string& point) {
  const auto comma = point.find(',');
  return point.rfind("learning_rate=", 0) == 0 && comma != std::string::npos ? point.substr(comma + 1) : point;
}

std::vector<CurvePoint> points_labelled(const std::vector<CurvePoint>& points, const std::string& label) {
  std::vector<CurvePoint> out;
  for (const auto& point : points)
    if (point.label == label) out.push_back(point);
  return out;
}

// NaN where the MFT lies outside of the line.
double along(const CurvePoint& a, const CurvePoint& b, double mft) {
  const double low = std::min(a.mft, b.mft), high = std::max(a.mft, b.mft);
  if (!(mft >= low && mft <= high)) return kUnknown;
  if (high - low < 1e-9) return std::max(a.ap.mean, b.ap.mean);
  return a.ap.mean + (mft - a.mft) / (b.mft - a.mft) * (b.ap.mean - a.ap.mean);
}

std::string braking_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "";
}

}  // namespace

std::vector<CurvePoint> curve_points(const ComparisonTable& table) {
  std::vector<CurvePoint> out;
  for (const auto& group : table.groups) {
    const auto colon = group.label.find(':');
    if (group.zero_shot || group.joint || group.unfinished) continue;
    CurvePoint point;
    point.label = group.label.substr(0, colon);
    if (colon != std::string::npos) point.point = group.label.substr(colon + 1);
    point.family = family_of(point.point);
    point.rate = group.runs[0]->rate;
    point.mft = mean_metric(group, "MFT");
    point.af = mean_metric(group, "AF");
    std::vector<double> ap;
    for (const Run* run : group.runs) ap.push_back(run->score("AP"));
    point.ap = paired_t(ap);
    if (std::isnan(point.rate) && point.point.rfind("learning_rate=", 0) == 0)
      parse_double(point.point.substr(14, point.point.find(',') - 14), point.rate);
    out.push_back(std::move(point));
  }
  return out;
}

bool is_search(const ComparisonTable& table) {
  const auto points = curve_points(table);
  return std::any_of(points.begin(), points.end(), [](const CurvePoint& point) { return !point.point.empty(); });
}

double curve_at(const std::vector<CurvePoint>& curve, double mft) {
  std::map<std::string, std::vector<CurvePoint>> families;
  for (const auto& point : curve) families[point.family].push_back(point);
  double best = kUnknown;
  for (auto& [name, points] : families) {
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.rate < b.rate; });
    for (size_t i = 1; i < points.size(); ++i) {
      const double value = along(points[i - 1], points[i], mft);
      if (!std::isnan(value) && !(value <= best)) best = value;
    }
  }
  return best;
}

BrakeVerdict judge_brake(const std::vector<CurvePoint>& curve, const CurvePoint& point) {
  BrakeVerdict out;
  const double there = curve_at(curve, point.mft);
  if (std::isnan(there)) return out;
  out.over = point.ap.mean - there;
  if (!point.ap.interval.known()) return out;
  out.place = there < point.ap.interval.low    ? CurvePlace::above
              : there > point.ap.interval.high ? CurvePlace::below
                                               : CurvePlace::on;
  return out;
}

std::string BrakeRow::words(const std::string& baseline) const {
  const auto curve = baseline + "'s rate curve";
  switch (verdict.place) {
    case CurvePlace::on:
      return "a brake: not told apart from " + curve;
    case CurvePlace::above:
      return fmt::format("{:.1f} AP above {}", verdict.over, curve);
    case CurvePlace::below:
      return fmt::format("{:.1f} AP below {}", -verdict.over, curve);
    default:
      if (std::isnan(verdict.over)) return "its MFT lies outside of " + curve;
      return fmt::format("one seed: {:.1f} AP {} {}", std::abs(verdict.over), verdict.over < 0 ? "below" : "above",
                         curve);
  }
}

std::vector<BrakeRow> brake_rows(const ComparisonTable& table, const std::string& baseline) {
  const auto all = curve_points(table);
  const auto curve = points_labelled(all, baseline);
  std::vector<std::string> labels;
  for (const auto& point : all)
    if (point.label != baseline && std::count(labels.begin(), labels.end(), point.label) == 0)
      labels.push_back(point.label);
  std::vector<BrakeRow> out;
  if (curve.size() < 2) return out;
  for (const auto& label : labels) {
    const auto points = points_labelled(all, label);
    const auto best = std::max_element(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
      return a.ap.n != b.ap.n ? a.ap.n < b.ap.n : a.ap.mean < b.ap.mean;
    });
    out.push_back({*best, judge_brake(curve, *best)});
  }
  return out;
}

std::string braking_csv(const ComparisonTable& table, const std::string& baseline) {
  const auto all = curve_points(table);
  const auto curve = points_labelled(all, baseline);
  std::string out = "stream,backbone,label,point,seeds,MFT,AP,AP_low,AP_high,AF,over_curve\n";
  for (const auto& point : all)
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{}\n", csv_safe_field(table.stream), csv_safe_field(table.backbone),
        csv_safe_field(point.label), csv_safe_field(point.point), point.ap.n, braking_number(point.mft),
        braking_number(point.ap.mean), braking_number(point.ap.interval.low), braking_number(point.ap.interval.high),
        braking_number(point.af), point.label == baseline ? "" : braking_number(judge_brake(curve, point).over));
  return out;
}

}  // namespace asr
