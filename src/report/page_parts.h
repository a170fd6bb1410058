// Parts of the page that stand in files of their own.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/run.h"
#include "report/tables.h"

namespace asr {

std::string page_script();  // what makes the page answer to pointing, clicking and typing
// Commands, options and fingerprints, folded. What cannot be read is named in the page, and in `unread`.
std::string settings_html(const RunSet& set, std::vector<std::string>& unread);

// Panels of a grid; those beyond the first `shown` behind a click, counted as "7 more skills".
std::string folded_panels(const std::vector<std::string>& panels, size_t shown, const std::string& what,
                          const std::string& grid = "small");

// A table that can be sorted; `styles` has the label of each row, -1 where it has none, and may be empty.
std::string html_grid(const Grid& grid, const std::vector<int>& styles);

}  // namespace asr
