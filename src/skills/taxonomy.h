// The reasoning skills that questions are sorted into, and the one table of their other names. Fifteen are built in; a
// YAML file can name others (docs/skills.md), for the whole process and before anything is read by it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace asr {

struct Taxonomy {
  std::vector<std::string> names;              // in the order of posterior columns
  std::map<std::string, std::string> aliases;  // other name -> skill, or another alias

  int find(const std::string& name) const;  // by name or alias; -1 if it has none
};

Taxonomy built_in_taxonomy();

// `skills: [count, color, ...]` and, if wanted, `aliases: {counting: count}`. Built-in aliases stay where they still
// lead to a skill. Errors name the line.
Taxonomy read_taxonomy(const std::string& path);

// From now on, in this process. Parsers and rules speak the built-in names, or those they were trained with: each must
// be a skill or an alias here, or go to the skill `other`.
void use_taxonomy(Taxonomy taxonomy);

const std::vector<std::string>& skill_names();  // of the taxonomy in use

// Index of a skill by name or alias ("locate" is location, "OCR" is read); an unknown name is an error with the
// nearest.
int skill_index(const std::string& name);

// The same, but a name that the taxonomy lacks counts as `other`, and is an error only without that.
int skill_or_other(const std::string& name);

}  // namespace asr
