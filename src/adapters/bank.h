// The adapters of a run: named slots of low-rank experts over chosen sites of a model. The bank owns them, freezes,
// merges, stores and lists them; the model's linears hold what takes part in a pass. When the bank goes, the model is
// the base again.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "adapters/layout.h"
#include "nn/adamw.h"

namespace asr {

class AdapterBank {
 public:
  // `sites`: all that may be adapted. They must carry nothing yet.
  explicit AdapterBank(std::vector<AdapterSite> sites);
  ~AdapterBank();
  AdapterBank(const AdapterBank&) = delete;
  AdapterBank& operator=(const AdapterBank&) = delete;

  const std::vector<AdapterSite>& sites() const { return sites_; }
  bool has(const std::string& slot) const;
  size_t number(const std::string& slot) const;  // a slot that is not there is an error
  uint64_t bit(const std::string& slot) const { return uint64_t(1) << number(slot); }
  std::vector<std::string> slots() const;

  // Makes a slot whose A is drawn by `seed`; B is zero, a full weight a copy of the base's.
  void add(const SlotLayout& layout, uint64_t seed);
  // Makes the slot, or the routers that one of its name lacks; those that were there are frozen then.
  void ensure(const SlotLayout& layout, uint64_t seed);
  // A slot with copies of another's tensors, frozen and out of every pass unless asked for: a teacher.
  void copy(const std::string& from, const std::string& to);
  void remove(const std::string& slot);  // the last one alone: numbers of others stay
  void keep_sites(const std::string& slot, const std::set<std::string>& sites);  // and leave the others as they were

  SlotAtSite& at(const std::string& slot, const std::string& site);
  const SlotLayout& layout(const std::string& slot) const;

  void freeze(const std::string& slot);
  void freeze(const std::string& slot, const std::string& site, size_t expert);
  void freeze_tensor(const std::string& slot, const torch::Tensor& tensor);  // one of its factors alone
  void unfreeze(const std::string& slot);                                    // all of it is trained again
  bool is_frozen(const std::string& slot) const;                             // all of it
  void take_part(const std::string& slot, bool in_training, bool in_answering);
  // Joins or lets go of a gate's parts after the slot was made.
  void set_gates(const std::string& slot, const std::string& site, const GateLayout& training,
                 const GateLayout& answering);

  // Adds the slot's product to the weights for as long as the bank lives. It keeps its factors, which is what is
  // stored, and the base pass (slots = 0) reads the original weights.
  void merge(const std::string& slot);
  bool is_merged(const std::string& slot) const { return entry(slot).merged; }

  uint64_t training() const;  // for Pass::slots
  uint64_t answering() const;
  // Every tensor with its name: PEFT's "<site>.lora_A.weight" in the slot of plain runs, "<slot>:<site>..." elsewhere,
  // with the expert's number where there are several.
  NamedParameters tensors() const;
  NamedParameters tensors_of(const std::string& slot) const;
  NamedParameters trained() const;                        // those that are not frozen
  double learning_rate(const std::string& tensor) const;  // of its own; 0: the common one

  // Layouts, what is frozen and merged; the tensors go beside it under their names.
  nlohmann::json describe() const;
  // Makes the slots that `described` has; their tensors are then found in tensors().
  void rebuild(const nlohmann::json& described, const std::string& where);
  void finish_rebuild();  // merges again what was merged, when the tensors are in place

 private:
  struct Entry {
    SlotLayout layout;
    bool merged = false;
    std::set<std::string> frozen;  // names of tensors
  };
  Linear& linear(const std::string& site) const;
  const Entry& entry(const std::string& slot) const;
  void remerge();
  void freeze_named(size_t slot, const std::string& name);

  std::vector<AdapterSite> sites_;
  std::vector<Entry> entries_;  // by number
};

// What a slot of experts can be written as, where other programs must read it: one low-rank pair a site.
struct PlainAdapter {
  NamedParameters tensors;               // "<site>.lora_A.weight" and B's
  std::map<std::string, int64_t> ranks;  // by site
  std::map<std::string, double> scales;
};
// Everything that takes part in answering as one pair a site; fails, with the reason, where a gate decides.
PlainAdapter as_plain_adapter(const AdapterBank& bank);
std::string why_not_plain(const AdapterBank& bank);  // empty: it is

}  // namespace asr
