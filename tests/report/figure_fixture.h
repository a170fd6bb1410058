// Fabricated runs in a folder, and a figure drawn of them.
#pragma once

#include "report/figures.h"
#include "tests/support/run_folder.h"

namespace asr {

class FigureData : public testing::Test {
 protected:
  // Without log, predictions and analyses.
  FabricatedRun run_of(const std::string& label, const std::string& method, int64_t order = 0) {
    FabricatedRun run;
    run.label = label;
    run.method = method;
    run.order = order;
    run.log = run.predictions = run.analysis = false;
    return run;
  }

  Figure draw(Figure (*figure)(const ComparisonTable&)) {
    set = load_runs({folder.path()});
    comparison = compare_runs(set, {});
    return figure(comparison.tables.at(0));
  }

  TemporaryFolder folder;
  RunSet set;
  Comparison comparison;
};

}  // namespace asr
