// M. F. Porter's algorithm for stripping English suffixes (Program 14, 1980), in its original form.
#pragma once

#include <string>

namespace asr {

std::string porter_stem(
    const std::string& word);  // of a lower-case word; words with other characters come back unchanged

}  // namespace asr
