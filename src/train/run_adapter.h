// The adapter of a finished run as a folder. Where one low-rank pair a site says it all, it is PEFT's. Otherwise it
// holds the slots with their gates and what the methods route by, and only this program reads it as a whole; slots that
// are chosen whole are a PEFT folder each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/run_parts.h"

namespace asr {

// Writes RUN/adapter and returns the names of its files. The closed head, where there is one, lies beside it.
std::vector<std::string> save_run_adapter(RunParts& parts);

// Slots and methods of such a folder, to answer with. While it lives, the model carries its adapters.
class SlotAdapter {
 public:
  SlotAdapter(Backbone& model, const std::string& folder);
  RoutedPass pass_for(const SampleBatch& batch);  // as evaluation answered
  const AdapterBank& bank() const { return bank_; }

 private:
  Backbone& model_;
  AdapterBank bank_;
  std::vector<std::unique_ptr<Method>> methods_;
  int stage_ = 0;
};
bool holds_slots(const std::string& folder);
// Fails in one line where a folder is none of an adapter, or of one that answers from a list and not in words.
void check_answers_in_words(const std::string& folder);

}  // namespace asr
