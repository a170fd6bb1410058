#include "methods/terms/site_budget.h"

#include <algorithm>
#include <cmath>

namespace asr {

std::set<std::string> SiteBudget::best(const std::vector<AdapterSite>& sites, const std::vector<double>& scores) const {
  std::vector<size_t> vision, text;
  double vision_score = 0, all_scores = 0;
  for (size_t i = 0; i < sites.size(); ++i) {
    const bool tower = sites[i].part == SitePart::vision;
    (tower ? vision : text).push_back(i);
    vision_score += tower ? scores[i] : 0;
    all_scores += scores[i];
  }
  const double total = std::max(1.0, std::round(part * static_cast<double>(sites.size())));
  const double share = all_scores > 0 ? vision_score / all_scores : 0;
  auto in_tower = static_cast<size_t>(std::llround(total * std::max(floor, share)));
  in_tower = std::min(in_tower, vision.size());
  const auto in_text = std::min(static_cast<size_t>(total) - in_tower, text.size());
  in_tower = std::min(static_cast<size_t>(total) - in_text, vision.size());
  std::set<std::string> out;
  const auto take = [&](std::vector<size_t>& of, size_t count) {
    std::stable_sort(of.begin(), of.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    for (size_t i = 0; i < count; ++i) out.insert(sites[of[i]].name);
  };
  take(vision, in_tower);
  take(text, in_text);
  return out;
}

}  // namespace asr
