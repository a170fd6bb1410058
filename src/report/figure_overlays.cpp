// Attention over example images after the last stage, the methods side by side.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text.h"
#include "report/colors.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/run_files.h"

namespace asr {
namespace {

constexpr size_t kExamples = 8;

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

struct Picture {
  int height, width;
  std::vector<uint8_t> pixels;
};

// Small images grow so that the map over them is smooth, large ones shrink so that the page stays small.
Picture blended(const Overlay& o, bool with_map) {
  const double scale = std::clamp(128.0 / std::max(o.height, o.width), 0.02, 8.0);
  Picture out{std::max(1, static_cast<int>(std::lround(o.height * scale))),
              std::max(1, static_cast<int>(std::lround(o.width * scale))),
              {}};
  std::vector<double> channels[3];
  for (size_t i = 0; i < o.image.size(); ++i) channels[i % 3].push_back(o.image[i]);
  const double peak = std::max(1e-12, *std::max_element(o.map.begin(), o.map.end()));
  for (int row = 0; row < out.height; ++row)
    for (int column = 0; column < out.width; ++column) {
      const double v = (row + 0.5) / out.height, u = (column + 0.5) / out.width;
      const double heat =
          sample(o.map, o.map_height, o.map_width, v * o.map_height - 0.5, u * o.map_width - 0.5) / peak;
      const Rgb color = heat_color(heat);
      const double alpha = with_map ? 0.2 + 0.5 * std::clamp(heat, 0.0, 1.0) : 0;
      const uint8_t over[3] = {color.r, color.g, color.b};
      for (int c = 0; c < 3; ++c) {
        const double under = sample(channels[c], o.height, o.width, v * o.height - 0.5, u * o.width - 0.5);
        out.pixels.push_back(to_byte((1 - alpha) * under + alpha * over[c]));
      }
    }
  return out;
}

std::string picture(const Overlay& o, bool with_map, const std::string& alternative, const std::string& caption) {
  const auto image = blended(o, with_map);
  return "<figure><img src=\"" + png_uri(image.pixels.data(), image.width, image.height) + "\" width=\"" +
         std::to_string(image.width) + "\" height=\"" + std::to_string(image.height) + "\" alt=\"" +
         escaped(alternative) + "\"><figcaption>" + caption + "</figcaption></figure>\n";
}

struct Example {
  std::vector<std::pair<std::string, Overlay>> answers;  // label, what it answered and where it looked
};

// The same question of the same image in several methods is one example.
std::vector<Example> examples_of(const ComparisonTable& table, std::string& absent) {
  using Key = std::tuple<std::string, std::string, std::vector<uint8_t>>;
  std::map<Key, size_t> places;
  std::vector<Example> out;
  for (const auto& [group, style] : styled_groups(table)) {
    const Run& run = first_run(*group);
    const auto stages = analysed_stages(run);
    const auto overlays = stages.empty() ? std::vector<Overlay>() : read_analysis(run, stages.back(), true).overlays;
    if (overlays.empty()) absent += missing("Not shown for " + group->label + ": its last analysis has no examples.");
    for (const auto& overlay : overlays) {
      const auto place = places.emplace(Key{overlay.task, overlay.question, overlay.image}, out.size());
      if (place.second) out.emplace_back();
      out[place.first->second].answers.emplace_back(group->label, overlay);
    }
  }
  // Those that most methods share come first: they are the ones to compare.
  std::stable_sort(out.begin(), out.end(),
                   [](const Example& a, const Example& b) { return a.answers.size() > b.answers.size(); });
  if (out.size() > kExamples) out.resize(kExamples);
  return out;
}

}  // namespace

Figure figure_overlays(const ComparisonTable& table) {
  std::string absent, out;
  const auto examples = examples_of(table, absent);
  if (examples.empty()) return absent;
  for (const auto& example : examples) {
    const auto& first = example.answers[0].second;
    out += "<div class=\"example\"><p><b>" + escaped(shortened(first.question, 300)) + "</b> " + "<small>" +
           escaped(first.task) + "; answer: <b>" + escaped(shortened(first.answer, 100)) + "</b>";
    if (!first.functional.empty())
      out += "; functional words: " + escaped(shortened(join(first.functional, ", "), 100));
    out += "</small></p>\n<div class=\"row\">" +
           picture(first, false, "The image of the question", "<small>image</small>");
    for (const auto& [label, overlay] : example.answers)
      out += picture(overlay, true, "Attention of " + label,
                     "<small>" + escaped(label) + "</small><br>" + escaped(shortened(overlay.prediction, 60)));
    out += "</div></div>\n";
  }
  return "<p class=\"note\">Attention from the words to the image after the last stage, mean over layers and heads; "
         "bright is much, dark is little, each map scaled to its own peak. Under each map: the label and its "
         "prediction." +
         of_which_run(table) + "</p>\n" + out + absent;
}

}  // namespace asr
