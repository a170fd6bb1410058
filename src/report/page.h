// The report: one HTML file that needs nothing else, no scripts and no network, readable in light and dark, on a phone
// and on paper.
#pragma once

#include <string>

#include "report/compare.h"
#include "report/run.h"

namespace asr {

// `version` goes into the footer. The same runs give the same bytes.
std::string report_page(const RunSet& set, const Comparison& comparison, const std::string& version);

std::string page_style();     // the CSS
std::string drawing_style();  // the part of it that a drawing needs

}  // namespace asr
