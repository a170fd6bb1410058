#include "skills/taxonomy.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"

namespace asr {

const std::vector<std::string>& skill_names() {
  static const std::vector<std::string> names = {
      "count", "color",     "location",     "compare-number", "compare-attribute", "existence", "relation", "spatial",
      "read",  "attribute", "fine-grained", "grounding",      "activity",          "object",    "other"};
  return names;
}

int skill_index(const std::string& name) {
  static const std::map<std::string, std::string> aliases = {{"counting", "count"},
                                                             {"colour", "color"},
                                                             {"locate", "location"},
                                                             {"reading", "read"},
                                                             {"OCR", "read"},
                                                             {"ocr", "read"},
                                                             {"comparison", "compare-attribute"}};
  const auto alias = aliases.find(name);
  const auto& names = skill_names();
  const auto found = std::find(names.begin(), names.end(), alias == aliases.end() ? name : alias->second);
  check(found != names.end(), "skill '", printable(name), "' is unknown", did_you_mean(name, names));
  return static_cast<int>(found - names.begin());
}

}  // namespace asr
