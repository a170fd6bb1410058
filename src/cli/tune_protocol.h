// asr tune --protocol: every row of a protocol is searched, chosen and tested with the same number of runs.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/trials.h"

namespace asr {

struct ProtocolArguments {
  TrialArguments trials;
  std::string path;
  std::vector<std::string> rows;         // none: all
  bool brief = false;                    // a line of points with one tuning seed, no finalists
  std::vector<std::string> tables = {};  // of runs that count as done
  std::string chosen = {};               // chosen.csv of another setting, whose choice is tested here; empty: a search
};

void tune_by_protocol(const ProtocolArguments& arguments, const Common& common);

}  // namespace asr
