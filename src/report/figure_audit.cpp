// What lay on disk between stages, as each run listed it: kinds of tensors with their bytes, after the last stage.
#include <fmt/format.h>

#include <map>

#include "base/checksums.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"

namespace asr {
namespace {

struct KeptKind {
  int64_t tensors = 0;
  double bytes = 0;
};

// By kind, from the newest stages/AA/kept.json; empty where there is none.
std::map<std::string, KeptKind> kept_kinds(const Run& run) {
  std::map<std::string, KeptKind> out;
  std::string path;
  for (size_t stage = 1; stage <= run.tasks.size(); ++stage) {
    const auto next = fmt::format("{}/stages/{:02}/kept.json", run.folder, stage);
    if (path_exists(next)) path = next;
  }
  if (path.empty()) return out;
  read_as_written(path);
  const auto content = read_json_object(path);
  for (const auto& item : JsonFields(content, path).list("items")) {
    const JsonFields fields(item, path + ": items");
    auto& kind = out[fields.text("kind")];
    ++kind.tensors;
    kind.bytes += static_cast<double>(fields.integer("bytes"));
  }
  return out;
}

}  // namespace

Figure figure_audit(const ComparisonTable& table) {
  Grid grid{"kept after the last stage, beside the adapter", {"label", "what", "tensors", "bytes"}, {}};
  std::vector<int> styles;
  std::string absent;
  DataCsv data({"label", "kind", "tensors", "bytes"});
  for (const auto& [group, style] : styled_groups(table)) {
    const Run& run = first_run(*group);
    const auto kinds = kept_kinds(run);
    if (kinds.empty())
      absent += "<li>" + cut_name(group->label, 60) +
                (run.from_table() ? ": a row of a table lists nothing" : ": nothing") + "</li>\n";
    for (const auto& [name, kind] : kinds) {
      grid.rows.push_back({{printable(group->label), ""},
                           {printable(name), ""},
                           {std::to_string(kind.tensors), ""},
                           {fmt::format("{:.0f}", kind.bytes), human_bytes(kind.bytes)}});
      styles.push_back(style);
      data.add({group->label, name}, {static_cast<double>(kind.tensors), kind.bytes});
    }
  }
  std::string out = grid.rows.empty() ? "" : html_grid(grid, styles);
  if (!absent.empty()) out += "<ul class=\"notes\">\n" + absent + "</ul>\n";
  return {
      out +
          "<p class=\"note\">Names of tensors and their checksums: stages/AA/kept.json. <code>asr audit</code> reads "
          "every file of a run and says whether old data is among them." +
          of_which_run(table) + "</p>\n",
      data.text()};
}

}  // namespace asr
