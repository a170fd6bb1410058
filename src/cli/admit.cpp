// asr admit CONFIG.yaml...: does this stream measure forgetting? Vanilla and joint at their best rate and epochs,
// chosen on the split tune, then measured on test (val where a task has no test rows). With --runs, from runs that are
// there already.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/trials.h"
#include "report/admission.h"
#include "report/admission_runs.h"
#include "report/choice.h"
#include "report/run.h"
#include "streams/stream.h"

namespace asr {
namespace {

using nlohmann::json;

struct AdmitArguments {
  TrialArguments trials;
  std::vector<double> rates = {0.0005, 0.001, 0.002, 0.005}, epochs = {1, 2, 4};
  std::vector<int64_t> seeds = {1, 2, 3};
  int64_t tuning_seeds = 0, further_rates = 3;
  std::vector<std::string> runs;  // tables of runs to judge instead
};

std::string plain_number(double value) {
  return fmt::format("{:.6g}", value);
}

using PointValues = std::vector<Assignment>;

Trial trial_of(const std::string& split, const std::string& method, const PointValues& values, int64_t seed) {
  const auto name = point_name(values);
  Trial out{cat(split, "/", method, "/", name, "/seed-", seed), {}};
  const auto set = [&](const std::string& key, const std::string& value) {
    out.sets.push_back({key, value, "asr admit"});
  };
  set("method", method);
  set("label", method + ":" + name);
  set("seeds", cat("[", seed, "]"));
  set("eval_split", split);
  out.sets.insert(out.sets.end(), values.begin(), values.end());
  return out;
}

// One method's search: rates x epochs, with a longer grid of rates where the best lies at its end.
class Search {
 public:
  Search(const Trials& trials, const AdmitArguments& given, std::string method)
      : trials_(trials), given_(given), method_(std::move(method)), rates_(given.rates) {
    const auto all = static_cast<int64_t>(given.seeds.size());
    tuning_ = given.tuning_seeds > 0 ? std::min(given.tuning_seeds, all) : all;
  }

  std::vector<PointValues> points() const {
    std::vector<PointValues> out;
    for (const double rate : rates_)
      for (const double epochs : given_.epochs)
        out.push_back({{"learning_rate", plain_number(rate), "asr admit"},
                       {"num_train_epochs", plain_number(epochs), "asr admit"}});
    return out;
  }
  std::vector<Trial> tuning() const {
    std::vector<Trial> out;
    for (const auto& point : points())
      for (int64_t i = 0; i < tuning_; ++i) out.push_back(trial_of("tune", method_, point, seed(i)));
    return out;
  }
  // The best point by a score on tune; an error where every run diverged.
  PointValues best(const std::string& metric) const {
    std::vector<ScoredPoint> scored;
    const auto all = points();
    for (const auto& point : all) {
      scored.push_back({point_name(point), {}});
      for (int64_t i = 0; i < tuning_; ++i) {
        const auto run = trials_.result(trial_of("tune", method_, point, seed(i)));
        scored.back().scores.push_back(run ? run->score(metric) : kUnknown);
      }
    }
    const auto order = best_points(scored, 1);
    check(!order.empty(), "admit: no setting of ", method_, " has a score; see ", trials_.root(),
          "/logs and try lower --rates");
    return all[order[0]];
  }
  // Adds a rate where the best lies at an end; false where nothing is to be added.
  bool extend() {
    double rate = 0;
    parse_double(best("AP")[0].value, rate);
    const double next = rate_beyond(rates_, rate);
    const auto most = given_.rates.size() + static_cast<size_t>(given_.further_rates);
    if (std::isnan(next) || rates_.size() >= most || next > 10) return false;
    log_info(cat("admit: ", method_, " is best at the end of its rates, ", plain_number(rate), "; ", plain_number(next),
                 " is tried too"));
    rates_.push_back(next);
    return true;
  }
  std::vector<Trial> reported(const PointValues& point) const {
    std::vector<Trial> out;
    for (const int64_t s : given_.seeds) out.push_back(trial_of(trials_.reported_split(), method_, point, s));
    return out;
  }
  size_t tuning_runs() const { return points().size() * static_cast<size_t>(tuning_); }

 private:
  int64_t seed(int64_t i) const { return given_.seeds[static_cast<size_t>(i)]; }

  const Trials& trials_;
  const AdmitArguments& given_;
  std::string method_;
  std::vector<double> rates_;
  int64_t tuning_ = 1;
};

std::vector<double> scores_of(const Trials& trials, const std::vector<Trial>& list, const std::string& metric) {
  std::vector<double> out;
  for (const auto& trial : list) {
    const auto run = trials.result(trial);
    out.push_back(run ? run->score(metric) : kUnknown);
  }
  return out;
}

std::string mean_text(const MeanTest& test) {
  if (!std::isfinite(test.mean)) return "-";
  if (!test.interval.known()) return fmt::format("{:.1f}", test.mean);
  return fmt::format("{:.1f} ({:.1f}..{:.1f})", test.mean, test.interval.low, test.interval.high);
}

json test_json(const MeanTest& test) {
  return {{"mean", finite_or_null(test.mean)},
          {"low", finite_or_null(test.interval.low)},
          {"high", finite_or_null(test.interval.high)}};
}

std::string number_list(const std::vector<double>& values) {
  std::vector<std::string> out;
  for (const double value : values) out.push_back(plain_number(value));
  return join(out, ", ");
}

std::string search_text(const AdmissionSearch& row) {
  const auto seeds =
      row.fewest_seeds == row.most_seeds ? cat(row.most_seeds) : cat(row.fewest_seeds, " to ", row.most_seeds);
  return cat(printable(row.label), ": rates ", number_list(row.rates), "; epochs ", number_list(row.epochs), "; ",
             row.points, row.points == 1 ? " point, " : " points, ", row.runs, row.runs == 1 ? " run, " : " runs, ",
             seeds, row.most_seeds == 1 ? " tuning seed" : " tuning seeds");
}

void print_verdict(const AdmissionVerdict& v) {
  const auto& a = v.admission;
  const auto need = [](double bound) { return fmt::format("at least {:+.0f}", bound); };
  const auto shown = [](const std::string& text) { return printable(text, 200); };
  const auto of = v.table.empty() ? "" : " of " + shown(v.table) + ", none made now";
  std::cout << shown(v.stream) << " on " << shown(v.backbone) << ", scores on " << v.split << " over " << v.seeds
            << " seeds with 95 % intervals (" << v.runs << " runs" << of << ")\n"
            << text_table({{"", "AP", "AF", "MFT", "chosen on tune"},
                           {"zero-shot", mean_text(a.zero_shot), "", "", ""},
                           {"vanilla", mean_text(a.vanilla_ap), mean_text(a.vanilla_af), mean_text(a.vanilla_mft),
                            shown(v.vanilla)},
                           {"joint", mean_text(a.joint_ap), "", "", shown(v.joint)},
                           {v.learnt_split == v.split ? "vanilla, best MFT" : "vanilla, best MFT on " + v.learnt_split,
                            "", "", mean_text(a.best_mft), shown(v.learnt)}})
            << text_table({{"", "measured", "needed"},
                           {"joint - vanilla, AP", mean_text(a.over_vanilla), need(kJointOverVanilla)},
                           {"joint - zero-shot, AP", mean_text(a.over_zero_shot), need(kJointOverZeroShot)},
                           {"vanilla's best MFT - joint", mean_text(a.learnt), need(-kLearntBelowJoint)}})
            << "vanilla's wrong answers that are none of their task's: " << mean_text(v.outside) << " %\n";
  for (const auto& row : v.searched) std::cout << "searched " << search_text(row) << "\n";
  for (const auto& note : v.notes) std::cout << "note: " << printable(note, 1000) << "\n";
  std::cout << v.text() << "\n";
}

json verdict_json(const AdmissionVerdict& v) {
  const auto& a = v.admission;
  json out = {{"stream", v.stream},
              {"backbone", v.backbone},
              {"split", v.split},
              {"seeds", v.seeds},
              {"runs", v.runs},
              {"zero_shot", test_json(a.zero_shot)},
              {"vanilla",
               {{"chosen", v.vanilla},
                {"AP", test_json(a.vanilla_ap)},
                {"AF", test_json(a.vanilla_af)},
                {"MFT", test_json(a.vanilla_mft)}}},
              {"joint", {{"chosen", v.joint}, {"AP", test_json(a.joint_ap)}}},
              {"best_mft", {{"chosen", v.learnt}, {"split", v.learnt_split}, {"MFT", test_json(a.best_mft)}}},
              {"joint_over_vanilla", test_json(a.over_vanilla)},
              {"joint_over_zero_shot", test_json(a.over_zero_shot)},
              {"best_mft_over_joint", test_json(a.learnt)},
              {"wrong_answers_outside", test_json(v.outside)},
              {"admitted", a.admitted()},
              {"verdict", v.text()}};
  if (v.table.empty()) return out;
  json searched = json::array();
  for (const auto& row : v.searched)
    searched.push_back({{"label", row.label},
                        {"rates", row.rates},
                        {"epochs", row.epochs},
                        {"points", row.points},
                        {"runs", row.runs},
                        {"tuning_seeds", {{"fewest", row.fewest_seeds}, {"most", row.most_seeds}}}});
  out["table"] = v.table;
  out["searched"] = searched;
  out["notes"] = v.notes;
  return out;
}

void check_lists(const AdmitArguments& given) {
  check(given.rates.size() > 1, "--rates: a grid of one value leaves nothing to choose; give at least two");
  for (const auto* list : {&given.rates, &given.epochs})
    for (const double value : *list)
      check(value > 0 && std::count(list->begin(), list->end(), value) == 1,
            list == &given.rates ? "--rates" : "--epochs", ": ", value,
            value > 0 ? " stands twice" : " is not above 0");
  for (const int64_t seed : given.seeds)
    check(seed >= 0 && std::count(given.seeds.begin(), given.seeds.end(), seed) == 1, "--seeds: ", seed,
          seed < 0 ? " is below 0" : " stands twice");
}

void admit(const AdmitArguments& given, const Common& common) {
  check_lists(given);
  const Trials trials("admit", given.trials);
  Search vanilla(trials, given, "vanilla"), joint(trials, given, "joint");
  for (bool longer = true; longer;) {
    auto list = vanilla.tuning();
    for (auto& trial : joint.tuning()) list.push_back(std::move(trial));
    if (!trials.settle(list)) return;
    longer = vanilla.extend();
    longer = joint.extend() || longer;
  }
  const auto vanilla_point = vanilla.best("AP"), joint_point = joint.best("AP"), learnt_point = vanilla.best("MFT");
  const auto at_best = vanilla.reported(vanilla_point), at_learnt = vanilla.reported(learnt_point),
             joined = joint.reported(joint_point);
  AdmissionVerdict v;
  v.vanilla = point_name(vanilla_point);
  v.joint = point_name(joint_point);
  v.learnt = point_name(learnt_point);
  auto list = at_best;
  list.insert(list.end(), joined.begin(), joined.end());
  if (v.learnt != v.vanilla) list.insert(list.end(), at_learnt.begin(), at_learnt.end());
  if (!trials.settle(list)) return;
  v.admission = judge_admission({scores_of(trials, joined, "zero_shot"), scores_of(trials, at_best, "AP"),
                                 scores_of(trials, at_best, "AF"), scores_of(trials, at_best, "MFT"),
                                 scores_of(trials, joined, "AP"), scores_of(trials, at_learnt, "MFT")});
  v.outside = paired_t(scores_of(trials, at_best, "outside"));
  v.stream = make_stream(trials.config().run.stream)->name();
  v.backbone = trials.config().run.model;
  v.split = v.learnt_split = trials.reported_split();
  v.seeds = given.seeds.size();
  v.runs = vanilla.tuning_runs() + joint.tuning_runs() + list.size();
  write_file_atomically(trials.root() + "/admission.json", verdict_json(v).dump(1) + "\n");
  if (common.json) return print_json(verdict_json(v));
  print_verdict(v);
}

// From runs that are there: each table is a stream of its own.
void admit_tables(const std::vector<std::string>& tables, const Common& common) {
  std::vector<AdmissionVerdict> verdicts;
  for (const auto& table : tables) {
    const auto set = load_runs({table});
    verdicts.push_back(judge_runs(set.runs, table, {"vanilla", "joint"}));
    for (const auto& note : set.notes) verdicts.back().notes.push_back(note);
  }
  if (common.json && verdicts.size() == 1) return print_json(verdict_json(verdicts[0]));
  json list = json::array();
  for (size_t i = 0; i < verdicts.size(); ++i) {
    list.push_back(verdict_json(verdicts[i]));
    if (common.json) continue;
    if (i > 0) std::cout << "\n";
    print_verdict(verdicts[i]);
  }
  if (!common.json) return;
  json out = json::object();
  out["verdicts"] = list;
  print_json(out);
}

void check_form(const AdmitArguments& given, const CLI::App& command) {
  check(given.runs.empty() != given.trials.configs.empty(),
        "admit: give a CONFIG whose runs are to be made, or --runs FILE.csv:SERIES, not ",
        given.runs.empty() ? "neither" : "both");
  if (given.runs.empty()) return;
  for (const char* option : {"--set", "--rates", "--epochs", "--seeds", "--tuning-seeds", "--further-rates", "--jobs",
                             "--resume", "--list-only"})
    check(command.count(option) == 0, option, ": goes with a CONFIG; --runs judges what is there and runs nothing");
}

}  // namespace

void add_admit_command(CLI::App& app, Common& common) {
  auto* command =
      app.add_subcommand("admit", "does a stream measure forgetting: joint against vanilla, each at its best");
  auto a = std::make_shared<AdmitArguments>();
  command->add_option("CONFIG", a->trials.configs, "YAML files of options, as for 'asr run'");
  command
      ->add_option("--runs", a->runs,
                   "judge runs that are there, and run nothing: tables as asr compare reads them, with the search "
                   "(split tune) and the test of the rows vanilla and joint; each is a stream")
      ->type_name("FILE.csv:SERIES");
  command->add_option("--set", a->trials.sets, "one option, after all files")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command->add_option("--rates", a->rates, "learning rates to try, e.g. 0.001,0.005; a best one at an end adds more")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("--epochs", a->epochs, "epochs to try")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("--seeds", a->seeds, "of the runs, on tune and on test")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("--tuning-seeds", a->tuning_seeds, "how many of the seeds choose on tune; 0: all")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  command->add_option("--further-rates", a->further_rates, "at most so many beyond the ends of --rates; 0: none")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 20));
  command->add_option("--jobs", a->trials.jobs, "runs at a time, the threads divided among them")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--resume", a->trials.resume, "keep complete runs, go on with the others");
  command->add_flag("--list-only", a->trials.list_only,
                    "print the missing runs of the next step as lines for tools/run_many.py, and run nothing");
  command->footer(
      "Every run is in output_dir/SPLIT/METHOD/POINT/seed-N, what it said in output_dir/logs; the verdict is "
      "also in output_dir/admission.json. With --runs nothing is run or written. Exit status: 0 admitted or "
      "not, 2 for bad input, 1 if a run failed, 130 or 143 after Ctrl-C or SIGTERM.");
  command->callback([a, command, &common] {
    check_form(*a, *command);
    if (a->runs.empty()) return admit(*a, common);
    admit_tables(a->runs, common);
  });
}

}  // namespace asr
