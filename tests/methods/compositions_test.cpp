// What two methods do to the same batch: which comes first, and what becomes of a process that holds none of the
// stage's own samples.
#include "tests/support/process_runs.h"

namespace asr {
namespace {

// Rows are rewritten before those of earlier stages join them, in whichever order the methods are named.
TEST(Compositions, ReplayComesAfterWhatRewritesTheStagesOwn) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  std::vector<std::string> runs;
  for (const std::string method : {"sefe+er", "er+sefe"}) {
    auto list = small_run(folder / "model", folder / "out-" + method, method);
    list.push_back({"stream.tasks", "2", "test"});
    list.push_back({"sefe.styles", "0.5", "test"});
    runs.push_back(run_small(list)[0]);
  }
  expect_close_logs(runs[0], runs[1], 1e-12);
  EXPECT_EQ(read_text(runs[0] + "/matrix.csv"), read_text(runs[1] + "/matrix.csv"));
}

// Two samples of the stage and three replayed ones, of which three processes have one each: one of them has no picture
// to be asked about. And passes of replay alone, which two processes share out whole: each logs every term.
TEST(Compositions, ProcessesWithReplayAloneAskNothing) {
  struct Case {
    int processes;
    std::string batch, passes, share;
  };
  for (const auto& c : {Case{3, "5", "1", "0.6"}, Case{2, "1", "4", "0.75"}}) {
    TemporaryFolder folder;
    write_small_model(folder / "model");
    const auto [one, many] = run_both(folder,
                                      {{"method", "er+quad"},
                                       {"stream.tasks", "2"},
                                       {"stream.train", "5"},
                                       {"stream.val", "2"},
                                       {"per_device_train_batch_size", c.batch},
                                       {"gradient_accumulation_steps", c.passes},
                                       {"er.share", c.share}},
                                      c.processes);
    SCOPED_TRACE(c.batch);
    expect_close_logs(one + "/er+quad", many + "/er+quad", 1e-4);
    int asked = 0;
    for (const auto& line : log_of(one + "/er+quad")) asked += line.contains("question_loss") ? 1 : 0;
    EXPECT_GE(asked, 3);
  }
}

}  // namespace
}  // namespace asr
