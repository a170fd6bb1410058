// asr score as a user runs it.
#include "tests/support/program.h"

namespace asr {
namespace {

class Files {
 public:
  Files(const std::string& predictions, const std::string& references) {
    write_text(folder_ / "p", predictions);
    write_text(folder_ / "r", references);
  }
  std::vector<std::string> score(const std::string& metric, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> out = {"score",       "--metric",     metric,       "--predictions",
                                    folder_ / "p", "--references", folder_ / "r"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

 private:
  TemporaryFolder folder_;
};

const char* kSaid = "{\"question_id\":1,\"text\":\"Red\"}\n{\"question_id\":2,\"text\":\"blue\"}\n";
const char* kTruth = "{\"question_id\":2,\"answers\":[\"green\",\"gray\"]}\n{\"question_id\":1,\"answer\":\"red\"}\n";

TEST(Score, TextAndJson) {
  const Files files(kSaid, kTruth);
  const auto text = run_program(files.score("exact"));
  EXPECT_EQ(text.status, 0) << text.error;
  EXPECT_CONTAINS(text.out, "exact 50.00 over 2 samples");
  const auto result = run_program(files.score("exact", {"--json", "--per-sample"})).json();
  EXPECT_EQ(result["score"], 50);
  EXPECT_EQ(result["accuracy"], 0.5);
  EXPECT_EQ(result["components"]["accuracy"], 0.5);
  EXPECT_EQ(result["per_sample"][0]["question_id"], "1");
  EXPECT_EQ(result["per_sample"][0]["value"], 1);
}

TEST(Score, RefusesBadInputInOneLine) {
  const Files files(kSaid, kTruth);
  expect_refused(files.score("exakt"), "did you mean 'exact'?");
  expect_refused(files.score("iou50"), "is no box");
  expect_refused({"score", "--metric", "exact"}, "required");
  expect_refused({"score", "--metric", "exact", "--predictions", "/nonexistent", "--references", "/nonexistent"},
                 "/nonexistent");
  expect_refused(Files("", kTruth).score("exact"), "/p: is empty");
  expect_refused(Files("{\"question_id\":1,\"text\":}\n", kTruth).score("exact"), "/p:1:25: not valid JSON");
  expect_refused(Files(kSaid, "{\"question_id\":1,\"answer\":\"a\"}\n").score("exact"),
                 "/p:2: question_id '2' has no reference");
}

}  // namespace
}  // namespace asr
