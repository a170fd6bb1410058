// The forgetting potential field: points of accuracy lost, over the drift of spectra and the loss of fine structure, of
// all labels of one backbone together. Streamlines climb from little forgetting to much.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/colors.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/potential_field.h"
#include "report/skill_steps.h"

namespace asr {
namespace {

constexpr double kFieldWidth = 560, kFieldHeight = 380, kFieldLeft = 52, kFieldTop = 10, kFieldBottom = 340;
constexpr size_t kColumns = 56, kRows = 36;
constexpr double kScaleLeft = 486;  // of the colour scale; the field ends before it

struct Observation {
  StyledGroup of;
  SkillStep step;
};

struct Plane {
  Scale x, y;
  double low, high;  // of the surface
};

Plane plane_of(const std::vector<Observation>& seen, const PotentialField& field) {
  double left = INFINITY, right = -INFINITY, bottom = INFINITY, top = -INFINITY;
  for (const auto& o : seen) {
    left = std::min(left, o.step.divergence);
    right = std::max(right, o.step.divergence);
    bottom = std::min(bottom, o.step.fine_loss);
    top = std::max(top, o.step.fine_loss);
  }
  const double dx = 0.06 * (right - left), dy = 0.08 * (top - bottom);
  Plane out{
      {left - dx, right + dx, kFieldLeft, kScaleLeft - 16}, {bottom - dy, top + dy, kFieldBottom, kFieldTop}, 0, 0};
  out.low = INFINITY;
  out.high = -INFINITY;
  for (const auto& o : seen) {
    const double value = field.at(o.step.divergence, o.step.fine_loss);
    out.low = std::min(out.low, value);
    out.high = std::max(out.high, value);
  }
  if (!(out.high > out.low)) out.high = out.low + 1;
  return out;
}

double along(const Scale& scale, double part) {
  return scale.low + part * (scale.high - scale.low);
}

std::vector<std::vector<double>> surface_of(const PotentialField& field, const Plane& plane) {
  std::vector<std::vector<double>> out(kRows, std::vector<double>(kColumns));
  for (size_t row = 0; row < kRows; ++row)
    for (size_t column = 0; column < kColumns; ++column)
      out[row][column] = field.at(along(plane.x, static_cast<double>(column) / (kColumns - 1)),
                                  along(plane.y, 1 - static_cast<double>(row) / (kRows - 1)));
  return out;
}

// Pale, so that markers and lines stand out: half way to white.
Rgb surface_color(double fraction) {
  const Rgb color = loss_color(1 - fraction);
  const auto pale = [](uint8_t c) { return static_cast<uint8_t>((c + 2 * 255) / 3); };
  return {pale(color.r), pale(color.g), pale(color.b)};
}

void draw_surface(Svg& svg, const std::vector<std::vector<double>>& surface, const Plane& plane) {
  std::vector<uint8_t> pixels;
  for (const auto& row : surface)
    for (const double value : row) {
      const Rgb color = surface_color((value - plane.low) / (plane.high - plane.low));
      pixels.insert(pixels.end(), {color.r, color.g, color.b});
    }
  svg.picture({plane.x.from, plane.y.to, plane.x.to - plane.x.from, plane.y.from - plane.y.to},
              png_uri(pixels.data(), static_cast<int>(kColumns), static_cast<int>(kRows)));
  const auto place = [&](const std::pair<double, double>& at) {
    return std::make_pair(plane.x.from + at.first / (kColumns - 1) * (plane.x.to - plane.x.from),
                          plane.y.to + at.second / (kRows - 1) * (plane.y.from - plane.y.to));
  };
  for (int i = 1; i < 7; ++i)
    for (const auto& [a, b] : contour(surface, plane.low + i / 7.0 * (plane.high - plane.low))) {
      const auto from = place(a), to = place(b);
      svg.line(from.first, from.second, to.first, to.second, "contour");
    }
}

void draw_streamlines(Svg& svg, const PotentialField& field, const Plane& plane) {
  const double steepest = (plane.high - plane.low);
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 5; ++j) {
      double x = along(plane.x, (i + 0.5) / 7), y = along(plane.y, (j + 0.5) / 5);
      Points points = {{plane.x(x), plane.y(y)}};
      for (int step = 0; step < 14; ++step) {
        const auto [sx, sy] = field.slope(x, y);
        const double u = sx * field.width_x(), v = sy * field.width_y(), length = std::hypot(u, v);
        if (length < 0.002 * steepest) break;  // flat: nowhere to climb
        x += 0.12 * field.width_x() * u / length;
        y += 0.12 * field.width_y() * v / length;
        if (x < plane.x.low || x > plane.x.high || y < plane.y.low || y > plane.y.high) break;
        points.emplace_back(plane.x(x), plane.y(y));
      }
      if (points.size() < 3) continue;
      svg.polyline(points, "stream");
      const auto& [bx, by] = points[points.size() - 2];
      const auto& [ex, ey] = points.back();
      const double angle = std::atan2(ey - by, ex - bx);
      svg.polyline({{ex - 5 * std::cos(angle - 0.5), ey - 5 * std::sin(angle - 0.5)},
                    {ex, ey},
                    {ex - 5 * std::cos(angle + 0.5), ey - 5 * std::sin(angle + 0.5)}},
                   "stream");
    }
}

// Names of transitions where there is room, on one side of the marker or another; the rest say theirs when pointed at.
// Markers in one place have one name.
void draw_labels(Svg& svg, const std::vector<Observation>& seen, const Plane& plane) {
  constexpr double kWide = 16, kHigh = 11;
  const std::pair<double, double> sides[] = {{14, -9}, {-14, -9}, {14, 11}, {-14, 11}, {0, -15}, {0, 17}};
  Points taken;  // middles of markers, then of names
  for (const auto& o : seen) taken.emplace_back(plane.x(o.step.divergence), plane.y(o.step.fine_loss));
  const size_t markers = taken.size();
  for (size_t i = 0; i < markers; ++i) {
    const auto here = taken[i];
    const auto same_place = [&](const std::pair<double, double>& other) {
      return std::hypot(other.first - here.first, other.second - here.second) < 3;
    };
    if (std::any_of(taken.begin(), taken.begin() + static_cast<ptrdiff_t>(i), same_place)) continue;
    for (const auto& [dx, dy] : sides) {
      const double x = here.first + dx, y = here.second + dy;
      const auto near = [&](const std::pair<double, double>& other) {
        return std::abs(other.first - x) < kWide && std::abs(other.second - y) < kHigh && !same_place(other);
      };
      const bool inside = x > plane.x.from + 8 && x < plane.x.to - 8 && y > plane.y.to + 6 && y < plane.y.from - 6;
      if (!inside || std::any_of(taken.begin(), taken.end(), near)) continue;
      svg.begin(of_label(seen[i].of.style));
      svg.text(x, y + 3.5, fmt::format("T{}", seen[i].step.from), "over middle");
      svg.end();
      taken.emplace_back(x, y);
      break;
    }
  }
}

std::string observation_tip(const Observation& seen, bool atypical) {
  const auto& step = seen.step;
  std::string out =
      fmt::format("{}, {}, stage {} to {}: {:.1f} points lost, JSD {:.3g}, fine structure lost {:.3g}",
                  seen.of.group->label, step.skill, step.from, step.to, step.lost, step.divergence, step.fine_loss);
  if (std::isfinite(step.entropy_increase)) out += fmt::format(", entropy {:+.3g} nats", step.entropy_increase);
  return out + (atypical ? "; not explained by the surface" : "");
}

void draw_observations(Svg& svg, const std::vector<Observation>& seen, const Plane& plane,
                       const std::vector<bool>& atypical) {
  double most = 1e-9;
  for (const auto& o : seen)
    if (std::isfinite(o.step.entropy_increase)) most = std::max(most, o.step.entropy_increase);
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto& step = seen[i].step;
    const double grown = std::isfinite(step.entropy_increase) ? std::max(0.0, step.entropy_increase) : 0;
    const double x = plane.x(step.divergence), y = plane.y(step.fine_loss), scale = 0.9 + 1.8 * std::sqrt(grown / most);
    svg.begin(of_label(seen[i].of.style) + " " + of_topic(step.skill));
    svg.tip(observation_tip(seen[i], atypical[i]));
    svg.marker(x, y, seen[i].of.style, scale);
    if (atypical[i]) svg.circle(x, y, 3.4 * scale + 2.5, "ring");
    svg.end();
  }
}

void draw_frame(Svg& svg, const Plane& plane) {
  svg.line(plane.x.from, plane.y.from, plane.x.to, plane.y.from, "axis");
  svg.line(plane.x.from, plane.y.to, plane.x.from, plane.y.from, "axis");
  for (const double tick : nice_ticks(plane.x.low, plane.x.high, 6))
    svg.text(plane.x(tick), kFieldBottom + 14, tick_text(tick), "tick middle");
  for (const double tick : nice_ticks(plane.y.low, plane.y.high, 6))
    svg.text(kFieldLeft - 5, plane.y(tick) + 3.5, tick_text(tick), "tick end");
  svg.text((plane.x.from + plane.x.to) / 2, kFieldHeight - 6, "drift of spectra, Jensen-Shannon divergence, nats",
           "label middle");
  svg.text(11, (kFieldTop + kFieldBottom) / 2, "fine structure lost, energy", "label middle",
           fmt::format("transform=\"rotate(-90 11 {})\"", coordinate((kFieldTop + kFieldBottom) / 2)));
  const Scale heat{plane.low, plane.high, kFieldBottom, kFieldTop + 22};
  for (int i = 0; i < 40; ++i)
    svg.rect(kScaleLeft, heat.from + (i + 1) / 40.0 * (heat.to - heat.from), 12, (heat.from - heat.to) / 40 + 0.5,
             fmt::format("fill=\"{}\"", hex(surface_color((i + 0.5) / 40))));
  for (const double tick : nice_ticks(plane.low, plane.high, 5))
    svg.text(kScaleLeft + 17, heat(tick) + 3.5, tick_text(tick), "tick");
  svg.text(kScaleLeft, kFieldTop + 10, "points lost", "label");
}

}  // namespace

Figure figure_potential(const ComparisonTable& table) {
  std::vector<Observation> seen;
  std::vector<FieldPoint> points;
  std::vector<StyledGroup> shown;
  LeftOut absent;
  for (const auto& of : continual_groups(table)) {
    SkillSteps steps;
    if (!absent.reads(of.group->label, [&] { steps = skill_steps(first_run(*of.group)); })) continue;
    for (auto& step : steps.steps) {
      if (!std::isfinite(step.divergence + step.fine_loss + step.lost)) continue;
      points.push_back({step.divergence, step.fine_loss, step.lost});
      seen.push_back({of, std::move(step)});
    }
    if (!seen.empty() && seen.back().of.group == of.group) shown.push_back(of);
  }
  const PotentialField field(points);
  if (!field.usable())
    return {missing(cat("Not shown: a surface needs three observations of drift or more, here are ", points.size(),
                        ". Runs with analyses (analysis.samples) of three stages or more have them.")) +
                absent.html(),
            "", absent.unread()};
  const auto atypical = field.atypical();
  const auto residuals = field.residuals();
  const Plane plane = plane_of(seen, field);
  Svg svg(kFieldWidth, kFieldHeight, cat("Forgetting potential field, ", table.stream, ", ", table.backbone), 760);
  draw_surface(svg, surface_of(field, plane), plane);
  draw_streamlines(svg, field, plane);
  draw_frame(svg, plane);
  draw_observations(svg, seen, plane, atypical);
  draw_labels(svg, seen, plane);
  DataCsv data({"label", "skill", "from", "to", "jsd", "fine_loss", "points_lost", "surface", "atypical"});
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto& s = seen[i].step;
    data.add({seen[i].of.group->label, s.skill, std::to_string(s.from), std::to_string(s.to)},
             {s.divergence, s.fine_loss, s.lost, s.lost - residuals[i], atypical[i] ? 1.0 : 0.0});
  }
  return {
      legend(legend_entries(shown)) + "<div class=\"scroll\" tabindex=\"0\" style=\"--least:480px\">" + svg.done() +
          "</div>\n<p class=\"note\">Colour and contours: points of accuracy lost in a step from stage to stage, "
          "smoothed; lines with arrows climb to where more is lost. A marker is a skill in a step (T1: from stage 1 "
          "to 2), larger where its attention got more diffuse; a ring marks one that the surface does not "
          "explain." +
          of_which_run(table) + "</p>\n" + absent.html(),
      data.text(), absent.unread()};
}

}  // namespace asr
