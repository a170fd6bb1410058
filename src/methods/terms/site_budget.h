// Which linears get an expert where there is not one for each (D-MoLE).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "nn/linear.h"

namespace asr {

// Of so many of the sites: the vision tower has its share of the summed scores, never below a floor, the language model
// the rest, and in each part the top scorers are taken. What one part has no room for goes to the other.
struct SiteBudget {
  double part = 0.5;  // of all sites
  double floor = 0;   // part of them that is the tower's at least
  std::set<std::string> best(const std::vector<AdapterSite>& sites, const std::vector<double>& scores) const;
};

}  // namespace asr
