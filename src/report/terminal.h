// The comparison as a terminal shows it: bars of AP, and the score matrices of the best label and of the baseline in
// colour. For people who look; everything in it stands in the tables too.
#pragma once

#include <string>

#include "report/compare.h"

namespace asr {

// With colours of the palette of 256 that terminals share.
std::string terminal_pictures(const Comparison& comparison);

}  // namespace asr
