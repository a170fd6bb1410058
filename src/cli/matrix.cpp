// asr matrix: the scores of a continual run from its score matrix.
#include <cmath>
#include <iostream>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "metrics/score_matrix.h"

namespace asr {
namespace {

using nlohmann::json;

json row_json(const std::vector<double>& row) {
  json out = json::array();
  for (double value : row) out.push_back(finite_or_null(value));
  return out;
}

void print_scores(const ScoreMatrix& matrix, const MatrixScores& s) {
  std::vector<std::vector<std::string>> rows = {{"stage"}};
  for (const auto& task : matrix.tasks) rows[0].push_back(printable(task));
  const auto add = [&rows](const std::string& name, const std::vector<double>& values) {
    rows.push_back({name});
    for (double value : values) rows.back().push_back(std::isnan(value) ? "" : number(value, 2));
  };
  if (!matrix.zero_shot.empty()) add("0", matrix.zero_shot);
  for (int a = 0; a < matrix.stages(); ++a) add(std::to_string(a + 1), matrix.rows[a]);
  std::cout << text_table(rows) << "\n";
  std::cout << text_table({{"AP", "AF", "AF (VQACL)", "Last", "Avg", "BWT", "MFT"},
                           {number(s.ap, 2), number(s.af_paper, 2), number(s.af_vqacl, 2), number(s.last, 2),
                            number(s.avg, 2), number(s.bwt, 2), number(s.mft, 2)}});
  std::cout << "\ninterference: score minus the task's best\n";
  rows.resize(1);
  rows[0].resize(s.interference.size() + 1);
  for (size_t a = 0; a < s.interference.size(); ++a) add(std::to_string(a + 1), s.interference[a]);
  std::cout << text_table(rows);
}

void run_matrix(const std::string& path, const Common& common) {
  std::vector<std::string> warnings;
  check_if_listed(path);
  const auto matrix = parse_score_csv(read_file(path, 64 << 20), path, warnings);
  for (const auto& warning : warnings) log_warn(warning);
  const auto left_out = matrix.tasks_left_out();
  if (!left_out.empty() && !common.json)
    log_info("without any score, and so left out of every mean: ", printable(join(left_out, ", "), 500));
  const auto s = score(matrix);
  if (!common.json) return print_scores(matrix, s);
  json interference = json::array(), scores = json::array();
  for (const auto& row : s.interference) interference.push_back(row_json(row));
  for (const auto& row : matrix.rows) scores.push_back(row_json(row));
  print_json({{"tasks", matrix.tasks},
              {"stages", matrix.stages()},
              {"zero_shot", row_json(matrix.zero_shot)},
              {"scores", scores},
              {"left_out", left_out},
              {"AP", finite_or_null(s.ap)},
              {"AF", finite_or_null(s.af_paper)},
              {"AF_vqacl", finite_or_null(s.af_vqacl)},
              {"Last", finite_or_null(s.last)},
              {"Avg", finite_or_null(s.avg)},
              {"BWT", finite_or_null(s.bwt)},
              {"MFT", finite_or_null(s.mft)},
              {"plasticity", row_json(s.plasticity)},
              {"stability", row_json(s.stability)},
              {"interference", interference}});
}

}  // namespace

void add_matrix_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("matrix", "AP, AF, Last, Avg, BWT, MFT and interference of a score matrix");
  auto path = std::make_shared<std::string>();
  command
      ->add_option(
          "SCORES", *path,
          "matrix.csv or matrix_novel.csv of a run: header of task names, one row a stage from 0 or 1, empty cells "
          "where unseen; a task without any score is left out")
      ->required();
  command->callback([path, &common] { run_matrix(*path, common); });
}

}  // namespace asr
