// Which method is better, by how much, and how sure one can be: means and intervals over runs, and paired differences
// against a baseline. Nothing here hides a number; what a figure does not cover is said in a note.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/contrasts.h"
#include "report/intervals.h"
#include "report/run.h"

namespace asr {

struct CompareOptions {
  std::vector<std::string> metrics;    // empty: AP, AF, Avg, BWT, MFT; AP_novel and AF_novel where a run has them
  std::string against;                 // label of the baseline; empty: vanilla where present
  bool skip_mixed = false;             // runs on other tasks than most are left out and named, instead of an error
  const Protocol* protocol = nullptr;  // its contrasts are tested and everything else is exploratory; null: none
};

// All runs of one label on one stream and backbone; also the line "zero-shot", which has no runs of its own.
struct Group {
  std::string label;
  bool replay_free = true, joint = false, zero_shot = false, unfinished = false;
  std::vector<const Run*> runs;  // by order, then seed
  std::vector<Spread> scores;    // one a metric
};

enum class IntervalOver { nothing, pairs, samples, student };

// A label minus the baseline, over the complete runs that share seed and order.
struct Difference {
  std::string label;
  int pairs = 0;
  IntervalOver over = IntervalOver::nothing;
  std::vector<double> mean;         // one a metric
  std::vector<Interval> intervals;  // over samples: AP alone
  std::string words;                // of AP: better, worse, no difference seen, not tested; with a protocol alone
};

// One stream, held-out group, backbone, head and split; or means over such tables, whose runs have no files of their
// own.
struct ComparisonTable {
  std::string stream, backbone;
  std::string split, head;  // heads and splits are never mixed
  std::string held_out;     // concept group that training left out; "mean over ..."; empty: none
  bool means = false;
  std::vector<Group> groups;                    // zero-shot, the baseline, the others by name, joint
  std::string baseline;                         // the label that others are compared with, whether it is here or not
  std::string baseline_words;                   // what it is, in a sentence: "plain fine-tuning"
  std::string against;                          // the same where it is here; empty: no differences
  std::map<std::string, int> styles;            // colour of a label, the same in all tables of a comparison
  std::map<std::string, std::string> places;    // of a label, against the baseline's curve over rates
  std::map<std::string, std::string> searched;  // for a label: how many points, with how many runs
  std::vector<Difference> differences;
  std::vector<std::string> notes;

  const Group* group(const std::string& label) const;  // null: none, or zero-shot
  int style_of(const std::string& label) const;        // of a search's LABEL:POINT, that of LABEL
};

struct Comparison {
  std::vector<std::string> metrics;
  std::vector<ComparisonTable> tables;
  std::vector<ComparisonTable> searches;     // on the split tune, with a protocol alone
  std::vector<ContrastResult> contrasts;     // of the protocol
  bool by_protocol = false, primary = true;  // primary: its contrasts were fixed beforehand; else they are exploratory
  std::vector<std::string> skipped, notes;
  std::vector<std::shared_ptr<const Run>> mean_runs;  // those of the tables of means
};
std::string table_title(const ComparisonTable& table);  // "vqacl:vqav2, G3 held out, llava"

// The runs must outlive the result.
Comparison compare_runs(const RunSet& set, const CompareOptions& options);

// "AP,AF" as the command line gives it; an unknown name is an error with the nearest.
std::vector<std::string> parse_metric_list(const std::string& text);

}  // namespace asr
