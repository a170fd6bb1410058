// The reasoning skills that questions are sorted into, and the one table of their other names.
#pragma once

#include <string>
#include <vector>

namespace asr {

// In the order of posterior columns.
const std::vector<std::string>& skill_names();

// Index of a skill by name or alias ("locate" is location, "OCR" is read); an unknown name is an error with the
// nearest.
int skill_index(const std::string& name);

}  // namespace asr
