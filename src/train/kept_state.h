// What methods keep between stages, as tensors with a kind: one visit saves it, loads it, and lists it for the audit.
#pragma once

#include <nlohmann/json.hpp>

#include "methods/method.h"
#include "tensor/tensor_io.h"

namespace asr {

struct KeptItem {
  std::string name;  // "method.ewc.fisher"
  StateKind kind = StateKind::statistics;
  torch::Tensor tensor;  // on the CPU; text as bytes

  nlohmann::json to_json() const;  // name, kind, type, shape, bytes, sha256
};

class StateSaver final : public StateVisitor {
 public:
  explicit StateSaver(std::string prefix) : prefix_(std::move(prefix)) {}
  void tensor(const std::string& name, StateKind kind, torch::Tensor& value) override;
  void text(const std::string& name, StateKind kind, std::string& value) override;
  std::vector<KeptItem> items;

 private:
  std::string prefix_;
};

class StateLoader final : public StateVisitor {
 public:
  StateLoader(std::string prefix, const NamedTensors& stored, at::Device device)
      : prefix_(std::move(prefix)), stored_(stored), device_(device) {}
  void tensor(const std::string& name, StateKind kind, torch::Tensor& value) override;
  void text(const std::string& name, StateKind kind, std::string& value) override;

 private:
  const torch::Tensor* find(const std::string& name) const;
  std::string prefix_;
  const NamedTensors& stored_;
  at::Device device_;
};

std::vector<KeptItem> kept_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods);
void load_kept_items(const std::string& composition, const std::vector<std::unique_ptr<Method>>& methods,
                     const NamedTensors& stored, at::Device device);

}  // namespace asr
