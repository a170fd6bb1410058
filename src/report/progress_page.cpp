#include "report/progress_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "report/compare.h"
#include "report/markup.h"
#include "report/page.h"
#include "report/run.h"

namespace asr {
namespace {

using nlohmann::json;

RunProgress progress_of(const std::string& folder) {
  RunProgress out;
  out.folder = folder;
  out.percent = out.seconds_left = kUnknown;
  const std::string log = folder + "/log.jsonl", metrics = folder + "/metrics.json";
  try {
    if (path_exists(metrics)) out.complete = JsonFields(read_json(metrics), metrics).flag("complete");
    const auto use = [&out](const json& line, const std::string& place) {
      if (!line.contains("percentage")) return;
      const JsonFields fields(line, place);
      out.percent = fields.number_or_nan("percentage");
      if (line.contains("remaining_time") && line["remaining_time"].is_number())
        out.seconds_left = fields.number_or_nan("remaining_time");
      out.stage = fields.integer("stage");
    };
    if (path_exists(log)) for_each_json_line(log, use, /*growing=*/true);
  } catch (const Error&) {
    // Being written at this moment, or damaged: the page itself says which.
  }
  if (out.complete) out.percent = 100;
  return out;
}

std::string progress_html(const std::vector<RunProgress>& runs) {
  std::string out = "<section class=\"progress\" id=\"progress\"><h2>Training</h2>\n<dl class=\"facts\">";
  for (const auto& run : runs) {
    const bool known = std::isfinite(run.percent);
    out += "<dt>" + escaped(run.folder) + "</dt><dd>";
    out += known ? fmt::format("<progress max=\"100\" value=\"{0:.1f}\">{0:.0f} %</progress> ", run.percent) : "";
    if (run.complete)
      out += "done";
    else if (!known)
      out += "not begun";
    else
      out += fmt::format("stage {}, {:.0f} %", run.stage, run.percent) +
             (std::isfinite(run.seconds_left) ? ", " + human_duration(run.seconds_left) + " left" : "");
    out += "</dd>";
  }
  return out + "</dl></section>\n";
}

std::string page_before_any_stage(const std::string& why) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>ASR: training</title>\n<style>" +
         page_style() + "</style></head><body><main>\n<h1>ASR: training</h1>\n" + missing(why) +
         "</main></body></html>\n";
}

std::string page_now(const std::vector<std::string>& paths, const std::string& version) {
  try {
    const auto set = load_runs(paths, Damaged::is_skipped);
    CompareOptions options;
    options.skip_mixed = true;
    return report_page(set, compare_runs(set, options), version);
  } catch (const Error& error) {
    return page_before_any_stage(error.what());
  }
}

}  // namespace

std::vector<RunProgress> read_progress(const std::vector<std::string>& paths) {
  std::vector<RunProgress> out;
  for (const auto& folder : run_folders(paths)) out.push_back(progress_of(folder));
  return out;
}

std::string watched_page(const std::vector<std::string>& paths, const std::string& version, int seconds) {
  const auto runs = read_progress(paths);
  const bool done =
      !runs.empty() && std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run.complete; });
  std::string page = page_now(paths, version);
  if (done) return page;
  const auto insert = [&page](const std::string& before, const std::string& text) {
    page.insert(page.find(before), text);
  };
  insert("<title>", fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", seconds));
  page.insert(page.find("</h1>\n") + 6, progress_html(runs));
  return page;
}

}  // namespace asr
