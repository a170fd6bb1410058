// What methods keep between stages, as tensors with a kind: one visit saves it, loads it, or lists it for the audit.
// Nothing is copied on the way: a buffer of samples may be larger than what is left of memory.
#pragma once

#include <nlohmann/json.hpp>

#include "methods/method.h"
#include "tensor/tensor_io.h"
#include "train/run_parts.h"

namespace asr {

// What a list says of an item.
struct ListedItem {
  std::string name;
  StateKind kind = StateKind::statistics;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  std::string sha256;  // of the bytes; empty where hashes were not asked for

  nlohmann::json to_json() const;
};
enum class ListHashes { no, yes };

// What an item is now, without a copy of it: a handle, and how often it had been written to.
struct HeldItem {
  std::string name;  // "method.ewc.fisher"
  StateKind kind = StateKind::statistics;
  torch::Tensor tensor;  // on its own device; text as bytes
  int64_t version = 0;
  static constexpr int64_t kTrained = -1;  // an optimizer writes to its storage behind its back: no version tells
};

class StateHolder final : public StateVisitor {
 public:
  explicit StateHolder(std::string prefix) : prefix_(std::move(prefix)) {}
  void tensor(const std::string& name, StateKind kind, torch::Tensor& value) override;
  void text(const std::string& name, StateKind kind, std::string& value) override;
  std::vector<HeldItem> items;

 private:
  std::string prefix_;
};

class StateLister final : public StateVisitor {
 public:
  StateLister(std::string prefix, ListHashes hashes) : prefix_(std::move(prefix)), hashes_(hashes) {}
  void tensor(const std::string& name, StateKind kind, torch::Tensor& value) override;
  void text(const std::string& name, StateKind kind, std::string& value) override;
  std::vector<ListedItem> items;

 private:
  std::string prefix_;
  ListHashes hashes_;
};

// Samples, questions and answers, which an adapter has no need of to answer.
bool is_of_samples(StateKind kind);

enum class LoadSamples { no, yes };  // no: items of samples stay as they are

class StateLoader final : public StateVisitor {
 public:
  StateLoader(std::string prefix, const NamedTensors& stored, at::Device device, LoadSamples samples = LoadSamples::yes)
      : prefix_(std::move(prefix)), stored_(stored), device_(device), samples_(samples) {}
  void tensor(const std::string& name, StateKind kind, torch::Tensor& value) override;
  void text(const std::string& name, StateKind kind, std::string& value) override;

 private:
  const torch::Tensor* find(const std::string& name) const;
  bool leaves(StateKind kind) const { return samples_ == LoadSamples::no && is_of_samples(kind); }
  std::string prefix_;
  const NamedTensors& stored_;
  at::Device device_;
  LoadSamples samples_;
};

std::vector<HeldItem> held_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods);
std::vector<ListedItem> listed_items(const std::string& composition,
                                     const std::vector<std::unique_ptr<Method>>& methods,
                                     ListHashes hashes = ListHashes::no);
void load_kept_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods,
                     const NamedTensors& stored, at::Device device, LoadSamples samples = LoadSamples::yes);

// What is constant within a stage, or may be: the methods' items, frozen adapters and the analysis.
std::vector<HeldItem> held_items(RunParts& parts);
std::string hash_of(const torch::Tensor& value);
void load_method_items(RunParts& parts, const NamedTensors& stored);
// What is kept between stages: the methods' items, and adapters that are not trained any more.
std::vector<ListedItem> listed_items(const RunParts& parts, ListHashes hashes = ListHashes::no);

}  // namespace asr
