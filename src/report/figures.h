// The figures of the report. Each is one file figure_NAME.cpp and one line in figures.def, and turns the runs of one
// stream and backbone into HTML and the numbers behind it. A figure without its data says in one sentence what is
// missing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "report/compare.h"

namespace asr {

struct Figure {
  std::string html;
  std::string csv;  // what it draws, a row a point, with a header; empty: nothing that could be drawn otherwise
  std::vector<std::string> unread;  // files without which it was drawn, as they cannot be read
  Figure(std::string shown, std::string data = "", std::vector<std::string> problems = {})
      : html(std::move(shown)), csv(std::move(data)), unread(std::move(problems)) {}
};

#define FIGURE(name, title) Figure figure_##name(const ComparisonTable& table);
#include "report/figures.def"
#undef FIGURE

struct FigureEntry {
  const char *name, *title;
  Figure (*draw)(const ComparisonTable& table);
};
const std::vector<FigureEntry>& all_figures();  // in the order of the page

// The one figure over all tables: backbones side by side.
Figure figure_backbones(const Comparison& comparison);
constexpr const char *kBackbonesName = "backbones", *kBackbonesTitle = "Sizes and families of backbones";

// A file of a run that cannot be read takes away the figures that need it, and no others: the sentence in the figure's
// place names it, and so does `unread`, once.
Figure not_drawn(const Error& error, std::vector<std::string>& unread);
void note_unread(const std::vector<std::string>& lines, std::vector<std::string>& unread);
template <class Draw>
Figure drawn_or_named(const Draw& draw, std::vector<std::string>& unread) {
  try {
    auto out = draw();
    note_unread(out.unread, unread);
    return out;
  } catch (const Error& error) {
    return not_drawn(error, unread);
  }
}

// Labels that a figure does not show: one sentence a reason.
class LeftOut {
 public:
  void add(const std::string& label, const std::string& reason);
  // False: a file of the label cannot be read, which is then the reason.
  template <class Read>
  bool reads(const std::string& label, const Read& read) {
    try {
      read();
      return true;
    } catch (const Error& error) {
      add(label, error.what());
      unread_.emplace_back(error.what());
      return false;
    }
  }
  std::string html() const;
  const std::vector<std::string>& unread() const { return unread_; }

 private:
  std::vector<std::string> unread_;
  std::vector<std::pair<std::string, std::vector<std::string>>> labels_;  // by reason
};

// A label with its colour, the same in every figure of every table.
struct StyledGroup {
  const Group* group;
  int style;
};
std::vector<StyledGroup> styled_groups(const ComparisonTable& table);  // without zero-shot

std::vector<std::pair<std::string, int>> legend_entries(const std::vector<StyledGroup>& groups);
std::vector<StyledGroup> continual_groups(const ComparisonTable& table);  // those with stages: no joint training

// Whether two values of an option are the same, as text or as numbers: "0" and "0.0".
bool same_value(const std::string& a, const std::string& b);

// The run whose own files stand for its label: the lowest order and seed.
const Run& first_run(const Group& group);
// " (asr: seed 1)" or "": says which run a figure shows where there are several.
std::string of_which_run(const ComparisonTable& table);

}  // namespace asr
