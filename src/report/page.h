// The report: one HTML file that needs nothing else and no network, readable in light and dark, on a phone and on
// paper. Its script only adds to it: without one, all figures and numbers are there.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/run.h"

namespace asr {

// `version` goes into the footer. The same runs give the same bytes.
struct ReportPage {
  std::string html;
  std::vector<std::string> unread;  // runs and files that cannot be read, a line each; the page names them too
};
ReportPage make_report_page(const RunSet& set, const Comparison& comparison, const std::string& version);
std::string report_page(const RunSet& set, const Comparison& comparison, const std::string& version);  // its HTML

// The sentences and tables of the page, for those who read text.
std::string report_markdown(const Comparison& comparison);

std::string page_style();     // the CSS
std::string drawing_style();  // the part of it that a drawing needs

}  // namespace asr
