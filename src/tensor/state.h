// What is kept between stages, item by item: one function of its owner saves, loads and lists it.
#pragma once

#include <torch/types.h>

#include <string>

namespace asr {

// What one item of a state is; the audit asks.
enum class StateKind { statistics, prototypes, adapter, teacher, sample, question, answer };
const char* name_of(StateKind kind);

// Visits every item once.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void tensor(const std::string& name, StateKind kind, torch::Tensor& value) = 0;  // may be undefined
  virtual void text(const std::string& name, StateKind kind, std::string& value) = 0;
  void number(const std::string& name, StateKind kind, int64_t& value);
};

}  // namespace asr
