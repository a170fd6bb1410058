// The figures of the report. Each is one file figure_NAME.cpp and one line in figures.def, and turns the runs of one
// stream and backbone into HTML. A figure without its data says in one sentence what is missing.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"

namespace asr {

#define FIGURE(name, title) std::string figure_##name(const ComparisonTable& table);
#include "report/figures.def"
#undef FIGURE

struct FigureEntry {
  const char* title;
  std::string (*draw)(const ComparisonTable& table);
};
const std::vector<FigureEntry>& all_figures();  // in the order of the page

// A method with its colour, the same in every figure.
struct StyledGroup {
  const Group* group;
  int style;
};
std::vector<StyledGroup> styled_groups(const ComparisonTable& table);  // without zero-shot

// The run whose own files stand for its label: the lowest order and seed.
const Run& first_run(const Group& group);
// " (asr: seed 1)" or "": says which run a figure shows where there are several.
std::string of_which_run(const ComparisonTable& table);

}  // namespace asr
