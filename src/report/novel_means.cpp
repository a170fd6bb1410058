#include "report/novel_means.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "report/intervals.h"

namespace asr {
namespace {

using Members = std::vector<const Run*>;
using MemberKey = std::tuple<std::string, int64_t, int64_t>;  // label, order, seed
using MemberTable = std::map<MemberKey, Members>;

bool is_novel(const std::string& score) {
  return score.find("_novel") != std::string::npos;
}

// NaN where a member has none: a mean over others would be another figure under the same name.
double mean_score(const Members& members, const std::string& name) {
  double sum = 0;
  for (const Run* run : members) sum += run->score(name);
  return members.empty() ? kUnknown : sum / static_cast<double>(members.size());
}

std::shared_ptr<Run> mean_run(const Run& like) {
  auto out = std::make_shared<Run>();
  out->label = like.label;
  out->method = like.method;
  out->stream = like.stream;
  out->backbone = like.backbone;
  out->seed = like.seed;
  out->order = like.order;
  out->replay_free = like.replay_free;
  return out;
}

std::string names_of(const std::set<std::string>& names) {
  return join({names.begin(), names.end()}, ", ");
}

// Says whose mean is not over all that the table is about.
void note_fewer(const Run& run, const std::set<std::string>& has, const std::set<std::string>& all, NovelMeans& out) {
  if (has.size() == all.size()) return;
  out.notes.push_back(cat("'", run.name(), "': over ", names_of(has), " alone, of ", names_of(all),
                          "; not comparable with the others, and no difference is given"));
}

struct GroupedRuns {
  MemberTable held_out, standard;
  std::set<std::string> groups;
};

NovelMeans means_over_groups(const GroupedRuns& table) {
  NovelMeans out;
  out.over = cat("mean over ", names_of(table.groups), " held out");
  for (const auto& [key, members] : table.held_out) {
    auto run = mean_run(*members[0]);
    std::set<std::string> groups;
    for (const Run* member : members) groups.insert(member->held_out);
    run->held_out = names_of(groups);
    const auto standard = table.standard.find(key);
    for (const auto& [name, value] : members[0]->scores)
      run->scores[name] = is_novel(name)                     ? mean_score(members, name)
                          : standard == table.standard.end() ? kUnknown
                                                             : mean_score(standard->second, name);
    note_fewer(*run, groups, table.groups, out);
    out.runs.push_back(std::move(run));
  }
  if (table.groups.size() < 5)
    out.notes.push_back(cat("novel compositions: ", table.groups.size(), " of VQACL's five groups were held out (",
                            names_of(table.groups), "); the published figures are means over all five"));
  return out;
}

NovelMeans means_over_benchmarks(const std::vector<NovelMeans>& benchmarks) {
  NovelMeans out;
  MemberTable members;
  std::set<std::string> streams;
  for (const auto& table : benchmarks)
    for (const auto& run : table.runs) {
      members[{run->label, run->order, run->seed}].push_back(run.get());
      streams.insert(run->stream);
    }
  out.over = "unweighted mean of " + names_of(streams);
  for (const auto& [key, list] : members) {
    auto run = mean_run(*list[0]);
    std::set<std::string> has;
    std::vector<std::string> groups;
    for (const Run* member : list) {
      has.insert(member->stream);
      groups.push_back(member->held_out);
    }
    run->stream = run->stream.substr(0, run->stream.find(':'));
    run->held_out = cat(names_of(has), ": ", join(groups, "; "));
    for (const auto& [name, value] : list[0]->scores) run->scores[name] = mean_score(list, name);
    note_fewer(*run, has, streams, out);
    out.runs.push_back(std::move(run));
  }
  return out;
}

}  // namespace

std::vector<NovelMeans> novel_means(const std::vector<Run>& runs) {
  std::map<std::pair<std::string, std::string>, GroupedRuns> tables;  // by stream and backbone
  for (const auto& run : runs) {
    if (!run.complete) continue;
    auto& table = tables[{run.stream, run.backbone}];
    auto& members = run.held_out.empty() ? table.standard : table.held_out;
    members[{run.label, run.order, run.seed}].push_back(&run);
    if (!run.held_out.empty()) table.groups.insert(run.held_out);
  }
  std::vector<NovelMeans> out;
  std::map<std::pair<std::string, std::string>, std::vector<NovelMeans>>
      families;  // by first part of the stream's name
  for (const auto& [key, table] : tables) {
    if (table.groups.empty()) continue;
    out.push_back(means_over_groups(table));
    families[{key.first.substr(0, key.first.find(':')), key.second}].push_back(out.back());
  }
  for (const auto& [key, benchmarks] : families)
    if (benchmarks.size() > 1) out.push_back(means_over_benchmarks(benchmarks));
  return out;
}

}  // namespace asr
