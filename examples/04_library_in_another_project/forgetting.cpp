// Forgetting of any continual run, from its scores: a matrix.csv with a row a stage and a column a task.
//   forgetting matrix.csv
#include <cstdio>
#include <exception>

#include "base/atomic_file.h"
#include "metrics/score_matrix.h"

int main(int count, char** arguments) try {
  if (count != 2) {
    std::fprintf(stderr, "usage: forgetting matrix.csv\n");
    return 2;
  }
  std::vector<std::string> warnings;
  const auto matrix = asr::parse_score_csv(asr::read_file(arguments[1]), arguments[1], warnings);
  const auto scores = asr::score(matrix);
  std::printf("%d stages: AP %.2f, forgetting %.2f\n", matrix.stages(), scores.ap, scores.af_paper);
} catch (const std::exception& error) {
  std::fprintf(stderr, "forgetting: %s\n", error.what());
  return 2;
}
