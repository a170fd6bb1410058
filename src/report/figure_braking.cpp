// AP and AF against MFT, of labels or of all points of a search: whether a method keeps more, or only learns less.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "report/braking.h"
#include "report/chart.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

// Points of a label; the baseline's are joined along its rates, family by family, the others stand alone.
Series series_of(std::vector<CurvePoint> points, bool joined, bool forgetting, int style) {
  Series out;
  out.name = points[0].label;
  out.style = style;
  out.markers = true;
  out.line = joined;
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
    return a.family != b.family ? a.family < b.family : a.rate < b.rate;
  });
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && (!joined || points[i].family != points[i - 1].family)) {  // breaks the line
      out.x.push_back(points[i].mft);
      out.y.push_back(kUnknown);
      out.tips.emplace_back();
    }
    out.tips.push_back(
        cat(points[i].label, points[i].point.empty() ? "" : " at " + points[i].point,
            fmt::format(": MFT {:.1f}, AP {:.1f}, AF {:.1f}", points[i].mft, points[i].ap.mean, points[i].af)));
    out.x.push_back(points[i].mft);
    out.y.push_back(forgetting ? points[i].af : points[i].ap.mean);
  }
  return out;
}

}  // namespace

Figure figure_braking(const ComparisonTable& table) {
  std::vector<std::pair<std::string, std::vector<CurvePoint>>> labels;
  for (const auto& point : curve_points(table)) {
    auto place = std::find_if(labels.begin(), labels.end(), [&](const auto& l) { return l.first == point.label; });
    if (place == labels.end()) place = labels.insert(labels.end(), {point.label, {}});
    place->second.push_back(point);
  }
  if (labels.empty()) return missing("Nothing to compare: joint training has no course over stages.");
  Chart ap, af;
  ap.title = cat("AP against MFT, ", table.stream, ", ", table.backbone);
  af.title = cat("AF against MFT, ", table.stream, ", ", table.backbone);
  ap.x_label = af.x_label = "MFT: what was learnt, points";
  ap.y_label = "AP: what is left, points";
  af.y_label = "AF: what was forgotten, points";
  std::vector<std::pair<std::string, int>> names;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int style = table.style_of(labels[i].first);
    const bool joined = labels[i].first == table.baseline;
    names.emplace_back(labels[i].first, style);
    ap.series.push_back(series_of(labels[i].second, joined, false, style));
    af.series.push_back(series_of(labels[i].second, joined, true, style));
  }
  std::string out = legend(names) + "<div class=\"grid wide\">\n<figure>" + draw(ap) + "</figure>\n<figure>" +
                    draw(af) + "</figure>\n</div>\n";
  const std::string csv = braking_csv(table, table.baseline);
  if (!is_search(table))
    return {out +
                "<p class=\"note\">A marker a label, the mean over its runs. With the runs of a search over learning "
                "rates, the baseline's rates make a curve: a label on it keeps more by learning less.</p>\n",
            csv};
  out += "<ul class=\"notes\">\n";
  for (const auto& row : brake_rows(table, table.baseline))
    out += "<li>" + escaped(cat(row.point.label, " at ", row.point.point, ": ", row.words(table.baseline))) + "</li>\n";
  out += "</ul>\n<p class=\"note\">A marker a point of the search, the mean over its seeds. The line joins " +
         escaped(table.baseline) + "'s rates at equal epochs. A row on it is a brake: its interval of AP holds what " +
         escaped(table.baseline) + " reaches at the same MFT with another rate.</p>\n";
  return {out, csv};
}

}  // namespace asr
