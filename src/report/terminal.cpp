#include "report/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/answer.h"
#include "report/markup.h"
#include "report/matrices.h"

namespace asr {
namespace {

constexpr int kBarCells = 30;

// The nearest colour of the 6 x 6 x 6 cube.
int cube_color(Rgb color) {
  const auto level = [](uint8_t channel) { return channel < 48 ? 0 : channel < 115 ? 1 : (channel - 35) / 40; };
  return 16 + 36 * level(color.r) + 6 * level(color.g) + level(color.b);
}

std::string name_column(const std::string& name, int width) {
  const auto characters = [](const std::string& text) {
    return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  };
  std::string text = printable(name, 200);
  if (characters(text) > width) text = shortened(text, static_cast<size_t>(width - 1));
  return text + std::string(static_cast<size_t>(width - characters(text)), ' ');
}

// Eighths of a cell, so that small differences show.
std::string bar_of(double part) {
  static const char* const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int units = static_cast<int>(std::lround(8 * kBarCells * std::clamp(part, 0.0, 1.0)));
  std::string out;
  for (int i = 0; i < units / 8; ++i) out += "█";
  return out + eighths[units % 8];
}

std::string bars_text(const ComparisonTable& table) {
  const double highest = highest_score(table);
  std::string out;
  for (const auto& group : table.groups) {
    std::vector<double> values;
    for (const Run* run : group.runs) values.push_back(run->score("AP"));
    const double ap = spread_of(values).mean;
    if (group.zero_shot || !std::isfinite(ap)) continue;
    const char* color = group.joint ? "\x1b[90m" : group.label == table.baseline ? "\x1b[33m" : "\x1b[36m";
    out += fmt::format("{} {}{}\x1b[0m {:.1f}\n", name_column(group.label, 20), color, bar_of(ap / highest), ap);
  }
  return out;
}

std::string matrix_text(const HeatMap& map) {
  std::string out = name_column("", 14);
  for (const auto& name : map.columns) out += " " + name_column(name, 6);
  out += "\n";
  for (const auto& row : map.rows) {
    out += name_column(row.name, 14);
    for (const double value : row.values) {
      if (!std::isfinite(value)) {
        out += "       ";
        continue;
      }
      const Rgb color = map.color((value - map.low) / (map.high - map.low));
      const int ink = std::string(text_color_on(color)) == "#fff" ? 15 : 16;
      out += fmt::format(" \x1b[48;5;{};38;5;{}m{:>6.1f}\x1b[0m", cube_color(color), ink, value);
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string terminal_pictures(const Comparison& comparison) {
  std::string out;
  for (const auto& table : comparison.tables) {
    if (table.means) continue;
    out += printable(table_title(table), 120) + ": " + answer_sentence(table) + "\n\n" + bars_text(table) + "\n";
    const Answer answer = answer_of(table);
    for (const Group* group : {answer.best, answer.baseline == answer.best ? nullptr : answer.baseline}) {
      if (!group) continue;
      const auto first = ordered_runs(table, *group)[0];
      out += printable(first.name, 100) + "\n" + matrix_text(score_map(first, highest_score(table))) + "\n";
    }
  }
  return out;
}

}  // namespace asr
