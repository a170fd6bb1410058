// Answers of a model to all rows of a set, block by block. Where a method chooses a slot for every row, all rows are
// routed first and then answered slot by slot, so that a block computes with the slot it needs and with no other.
#pragma once

#include <string>
#include <vector>

#include "data/objective.h"
#include "data/sample_set.h"

namespace asr {

struct Answerer {
  const Backbone& model;
  const Objective& objective;
  PassFor pass;  // how each batch is answered
  // Whose experts are added to copies of the weights while a block is answered, where all its rows weigh them alike
  // (nn/merged_weights.h); empty: experts stay products of their own, the plain reference.
  std::vector<AdapterSite> merged_sites = {};
  bool by_slot = true;  // rows of one slot are answered together; false: in the order of the set, the plain reference
  int64_t workers = 1;  // blocks whose pictures are read ahead, each by a thread of its own
};

// In the order of the rows.
struct RowAnswers {
  std::vector<std::string> texts;
  std::vector<std::string> slots;  // that answered, where a method chose them; "base": none
  std::vector<std::string> why;    // the probability of every slot as a JSON object, or empty
};

// As predictions have it: what a reader can use, so that a line stays short.
double rounded_probability(double value);

// Blocks of `batch` rows are shared out over the processes; all of them get the whole result.
RowAnswers answer_rows(const Answerer& who, const SampleSet& set, int64_t batch, const Team& team);

}  // namespace asr
