#include "skills/taxonomy.h"

#include <algorithm>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"

namespace asr {
namespace {

constexpr const char* kAliasPrefix = "aliases.";

Taxonomy& taxonomy_in_use() {
  static Taxonomy taxonomy = built_in_taxonomy();
  return taxonomy;
}

struct SkillList {
  std::vector<std::string> names;
  void visit(OptionVisitor& v) { v("skills", names, "names of the skills"); }
};

bool is_alias(const Assignment& a) {
  return a.key.compare(0, std::string(kAliasPrefix).size(), kAliasPrefix) == 0;
}

std::vector<std::string> listed_skills(const std::vector<Assignment>& assignments, const std::string& path) {
  SkillList list;
  OptionTable table;
  table.add("", list);
  for (const auto& a : assignments) {
    check(a.key == "skills" || is_alias(a), a.origin, ": '", printable(a.key), "' is unknown; known: skills, aliases");
    if (a.key == "skills") table.set(a);
  }
  check(!list.names.empty(), path, ": names no skills; expected skills: [count, color, ...]");
  std::set<std::string> seen;
  for (const auto& name : list.names) {
    check(!name.empty() && seen.insert(name).second, path, ": skill '", printable(name), "' is empty or stands twice");
  }
  return list.names;
}

}  // namespace

int Taxonomy::find(const std::string& name) const {
  std::string at = name;
  for (int hops = 0; hops < 8; ++hops) {
    const auto found = std::find(names.begin(), names.end(), at);
    if (found != names.end()) return static_cast<int>(found - names.begin());
    const auto alias = aliases.find(at);
    if (alias == aliases.end()) break;
    at = alias->second;
  }
  return -1;
}

Taxonomy built_in_taxonomy() {
  return {{"count", "color", "location", "compare-number", "compare-attribute", "existence", "relation", "spatial",
           "read", "attribute", "fine-grained", "grounding", "activity", "object", "other"},
          {{"counting", "count"},
           {"number", "count"},
           {"colour", "color"},
           {"locate", "location"},
           {"place", "location"},
           {"reading", "read"},
           {"OCR", "read"},
           {"ocr", "read"},
           {"text", "read"},
           {"comparison", "compare-attribute"},
           {"compare", "compare-attribute"},
           {"judge", "existence"},
           {"presence", "existence"},
           {"action", "activity"},
           {"recognition", "object"},
           {"type", "fine-grained"},
           {"subcategory", "fine-grained"},
           {"fine_grained", "fine-grained"},
           {"referring", "grounding"},
           {"causal", "other"},
           {"commonsense", "other"}}};
}

Taxonomy read_taxonomy(const std::string& path) {
  const auto assignments = parse_yaml_options(read_file(path), path);
  Taxonomy out;
  out.names = listed_skills(assignments, path);
  out.aliases = built_in_taxonomy().aliases;
  for (const auto& a : assignments)
    if (is_alias(a)) out.aliases[a.key.substr(std::string(kAliasPrefix).size())] = a.value;
  for (const auto& a : assignments)
    check(!is_alias(a) || out.find(a.value) >= 0, a.origin, ": the alias leads to '", printable(a.value),
          "', which is no skill", did_you_mean(a.value, out.names));
  for (auto alias = out.aliases.begin(); alias != out.aliases.end();)
    alias = out.find(alias->first) < 0 ? out.aliases.erase(alias) : std::next(alias);
  return out;
}

void use_taxonomy(Taxonomy taxonomy) {
  check(!taxonomy.names.empty(), "a taxonomy needs at least one skill");
  taxonomy_in_use() = std::move(taxonomy);
}

const std::vector<std::string>& skill_names() {
  return taxonomy_in_use().names;
}

int skill_index(const std::string& name) {
  const int found = taxonomy_in_use().find(name);
  check(found >= 0, "skill '", printable(name), "' is unknown", did_you_mean(name, skill_names()));
  return found;
}

int skill_or_other(const std::string& name) {
  const int found = taxonomy_in_use().find(name), other = taxonomy_in_use().find("other");
  check(found >= 0 || other >= 0, "the taxonomy has neither skill '", printable(name),
        "' nor 'other'; add an alias for it to the taxonomy file");
  return found >= 0 ? found : other;
}

}  // namespace asr
