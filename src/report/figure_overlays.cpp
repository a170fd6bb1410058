// Case study: where the model looks at an image when it has just learnt its task, and after the last stage, the methods
// side by side; the examples whose attention or answer changed most come first.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "report/colors.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"
#include "report/run_files.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr size_t kExamples = 8, kShownCases = 4, kBeside = 4;  // labels up to which two cases fit beside each other
constexpr int kMapSide = 32;          // of a map's picture, which the browser enlarges smoothly
constexpr int kImageSide = 128;       // largest side of the image itself, so that the page stays small
constexpr double kCaseCell = 96;      // of a drawing's column, in its units
constexpr double kMapOpacity = 0.55;  // of the map over the image

// Catmull-Rom between cell centres, held at the edges: smooth at any size and exact at the centres.
double sample(const std::vector<double>& grid, int height, int width, double y, double x) {
  const auto weight = [](double distance) {
    const double d = std::abs(distance);
    return d < 1 ? 1 - d * d * (2.5 - 1.5 * d) : d < 2 ? 2 - d * (4 - d * (2.5 - 0.5 * d)) : 0;
  };
  const int row = static_cast<int>(std::floor(y)), column = static_cast<int>(std::floor(x));
  double sum = 0;
  for (int i = row - 1; i <= row + 2; ++i)
    for (int j = column - 1; j <= column + 2; ++j)
      sum += weight(y - i) * weight(x - j) *
             grid[static_cast<size_t>(std::clamp(i, 0, height - 1)) * width + std::clamp(j, 0, width - 1)];
  return sum;
}

uint8_t to_byte(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

std::string image_uri(const Overlay& o) {
  const double scale = std::min(1.0, static_cast<double>(kImageSide) / std::max(o.height, o.width));
  const int height = std::max(1, static_cast<int>(std::lround(o.height * scale)));
  const int width = std::max(1, static_cast<int>(std::lround(o.width * scale)));
  if (height == o.height && width == o.width) return png_uri(o.image.data(), width, height);
  std::vector<double> channels[3];
  for (size_t i = 0; i < o.image.size(); ++i) channels[i % 3].push_back(o.image[i]);
  std::vector<uint8_t> pixels;
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      for (const auto& channel : channels)
        pixels.push_back(to_byte(sample(channel, o.height, o.width, (row + 0.5) / height * o.height - 0.5,
                                        (column + 0.5) / width * o.width - 0.5)));
  return png_uri(pixels.data(), width, height);
}

std::string map_uri(const Overlay& o) {
  const double peak = std::max(1e-12, *std::max_element(o.map.begin(), o.map.end()));
  std::vector<uint8_t> pixels;
  for (int row = 0; row < kMapSide; ++row)
    for (int column = 0; column < kMapSide; ++column) {
      const double y = (row + 0.5) / kMapSide * o.map_height - 0.5, x = (column + 0.5) / kMapSide * o.map_width - 0.5;
      const Rgb color = heat_color(sample(o.map, o.map_height, o.map_width, y, x) / peak);
      pixels.insert(pixels.end(), {color.r, color.g, color.b});
    }
  return png_uri(pixels.data(), kMapSide, kMapSide);
}

// What one label made of an example: when its task was just learnt, and at the end.
struct CaseCourse {
  StyledGroup of;
  int64_t first_stage = 0, last_stage = 0;
  Overlay first, last;
  // Share of the attention that moved: half the L1 distance of the two maps, each as parts of its sum.
  double moved() const {
    double before = 0, after = 0, sum = 0;
    for (const double value : first.map) before += value;
    for (const double value : last.map) after += value;
    if (first.map.size() != last.map.size() || !(before > 0) || !(after > 0)) return kUnknown;
    for (size_t i = 0; i < first.map.size(); ++i) sum += std::abs(first.map[i] / before - last.map[i] / after);
    return sum / 2;
  }
  bool answer_changed() const { return first.prediction != last.prediction; }
};

struct Example {
  std::vector<CaseCourse> courses;  // a label each
  // Those that most labels share come first, of them those whose answers and attention changed most.
  std::tuple<size_t, size_t, double> rank() const {
    size_t changed = 0;
    double most = 0;
    for (const auto& course : courses) {
      changed += course.answer_changed() ? 1 : 0;
      if (std::isfinite(course.moved())) most = std::max(most, course.moved());
    }
    return {courses.size(), changed, most};
  }
};

// The same question of the same image.
using ExampleKey = std::tuple<std::string, std::string, std::vector<uint8_t>>;
ExampleKey key_of(const Overlay& overlay) {
  return {overlay.task, overlay.question, overlay.image};
}

// Examples of the last analysis, each as the first analysis that has it saw it: that of the stage that learnt its task.
std::vector<CaseCourse> case_courses(const StyledGroup& of) {
  std::vector<CaseCourse> out;
  std::map<ExampleKey, size_t> places;
  const Run& run = first_run(*of.group);
  const auto stages = analysed_stages(run);
  if (stages.empty()) return out;
  for (auto& overlay : read_analysis(run, stages.back(), true).overlays) {
    if (!places.emplace(key_of(overlay), out.size()).second) continue;
    out.push_back({of, stages.back(), stages.back(), overlay, overlay});
  }
  for (auto stage = stages.rbegin() + 1; stage < stages.rend(); ++stage)
    for (auto& overlay : read_analysis(run, *stage, true).overlays) {
      const auto place = places.find(key_of(overlay));
      if (place == places.end()) continue;
      out[place->second].first = std::move(overlay);
      out[place->second].first_stage = *stage;
    }
  return out;
}

std::vector<Example> examples_of(const ComparisonTable& table, LeftOut& absent) {
  std::map<ExampleKey, size_t> places;
  std::vector<Example> out;
  for (const auto& of : styled_groups(table)) {
    std::vector<CaseCourse> courses;
    if (!absent.reads(of.group->label, [&] { courses = case_courses(of); })) continue;
    if (courses.empty())
      absent.add(of.group->label, "its last analysis has no examples (analysis.overlays: 8 keeps eight).");
    for (auto& course : courses) {
      const auto place = places.emplace(key_of(course.last), out.size());
      if (place.second) out.emplace_back();
      out[place.first->second].courses.push_back(std::move(course));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Example& a, const Example& b) { return a.rank() > b.rank(); });
  if (out.size() > kExamples) out.resize(kExamples);
  return out;
}

constexpr double kCaseSide = kCaseCell - 10, kCaseNames = 18, kCaseRow = kCaseCell + 12, kCaseColumns = kCaseCell + 18;

double row_top(bool end) {
  return kCaseNames + (end ? kCaseRow : 0);
}

// As it was answered; a tick where that is the answer.
std::string marked_prediction(const Overlay& shown) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  return (lower(shown.prediction) == lower(shown.answer) ? "✓ " : "") + shortened(shown.prediction, 14);
}

// One column: the map as first learnt above the one at the end, each with its prediction.
void draw_course(Svg& svg, const CaseCourse& course, double x) {
  svg.begin(of_label(course.of.style));
  svg.tip(fmt::format("{}: after stage {} \"{}\", after stage {} \"{}\"; {:.0f} % of the attention moved",
                      course.of.group->label, course.first_stage, course.first.prediction, course.last_stage,
                      course.last.prediction, 100 * course.moved()));
  svg.text(x + kCaseSide / 2, 12, shortened(course.of.group->label, 15), "tick middle");
  const bool one_stage = course.first_stage == course.last_stage;
  for (const bool end : {false, true}) {
    if (!end && one_stage) continue;  // learnt last, or all at once: there is no earlier look
    const Overlay& shown = end ? course.last : course.first;
    svg.reuse(x, row_top(end));
    svg.picture({x, row_top(end), kCaseSide, kCaseSide}, map_uri(shown), kMapOpacity);
    svg.text(x + kCaseSide / 2, row_top(end) + kCaseSide + 13, marked_prediction(shown), "tick middle");
  }
  svg.end();
}

std::string case_drawing(const Example& example, size_t number) {
  const double width = kCaseColumns + kCaseCell * static_cast<double>(example.courses.size());
  const auto& any = example.courses[0].last;
  Svg svg(width, kCaseNames + 2 * kCaseRow, cat("Case ", number, ": ", shortened(any.question, 100)), 1.15 * width);
  svg.keep({0, 0, kCaseSide, kCaseSide}, image_uri(any));
  svg.text(kCaseSide / 2, 12, "image", "tick middle");
  svg.reuse(0, kCaseNames);
  for (const bool end : {false, true}) {
    const double x = kCaseColumns - 9, y = row_top(end) + kCaseSide / 2;
    svg.text(x, y, end ? "at the end" : "just learnt", "tick middle",
             fmt::format("transform=\"rotate(-90 {} {})\"", coordinate(x), coordinate(y)));
  }
  for (size_t i = 0; i < example.courses.size(); ++i)
    draw_course(svg, example.courses[i], kCaseColumns + kCaseCell * static_cast<double>(i));
  return "<div class=\"scroll\" tabindex=\"0\" style=\"--least:" + coordinate(0.9 * width) + "px\">" + svg.done() +
         "</div>\n";
}

std::string case_html(const Example& example, size_t number) {
  const auto& any = example.courses[0].last;
  std::string out = "<figure class=\"example\" " + of_topic(any.task) + "><figcaption>" + cut_name(any.question, 300) +
                    " <small>" + cut_name(any.task, 60) + "; answer: <b>" + cut_name(any.answer, 100) + "</b>";
  if (!any.functional.empty()) out += "; functional words: " + escaped(shortened(join(any.functional, ", "), 100));
  return out + "</small></figcaption>\n" + case_drawing(example, number) + "</figure>\n";
}

}  // namespace

Figure figure_overlays(const ComparisonTable& table) {
  LeftOut absent;
  const auto examples = examples_of(table, absent);
  if (examples.empty()) return {absent.html(), "", absent.unread()};
  DataCsv data({"case", "label", "task", "question", "answer", "first_stage", "first_prediction", "last_stage",
                "last_prediction", "attention_moved"});
  std::vector<std::string> cases;
  size_t most = 0;
  for (const auto& example : examples) most = std::max(most, example.courses.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    cases.push_back(case_html(examples[i], i + 1));
    for (const auto& c : examples[i].courses)
      data.add({std::to_string(i + 1), c.of.group->label, c.last.task, c.last.question, c.last.answer,
                std::to_string(c.first_stage), c.first.prediction, std::to_string(c.last_stage), c.last.prediction},
               std::vector<double>{c.moved()});
  }
  return {
      "<p class=\"note\">Attention from the words to the image, mean over layers and heads; bright is much, dark is "
      "little, each map scaled to its own peak. Above: after the stage that learnt the task; below: after the last "
      "stage. Under each map the prediction, ticked where it is the answer. Cases whose answers and attention "
      "changed most come first." +
          of_which_run(table) + "</p>\n" +
          folded_panels(cases, kShownCases, "cases", most > kBeside ? "rows" : "wide") + absent.html(),
      data.text(), absent.unread()};
}

}  // namespace asr
