// Running means of vectors by class (VQACL): a row a class, updated by the means of a batch's samples of that class.
// Rows of classes that a batch lacks stay as they are; `exact` takes their mean for zero, as the released code does.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "tensor/state.h"

namespace asr {

class ClassPrototypes {
 public:
  explicit ClassPrototypes(std::string name) : name_(std::move(name)) {}

  void add(const std::string& label);              // a row for it, unless there is one
  int64_t row_of(const std::string& label) const;  // -1: it has none
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  const torch::Tensor& rows() const { return rows_; }  // [classes, width]; a class not met yet is zero
  bool known() const;                                  // whether any class was met
  void forget() { rows_ = torch::Tensor(); }           // what was met, not which classes there are

  // Of vectors [B, width], by the labels of their samples: sums, and how many there were in the last column. Samples
  // without a row, and vectors of zeros (no picture), count for nothing. [classes, width + 1] double
  torch::Tensor sums(const torch::Tensor& vectors, const std::vector<std::string>& labels) const;
  // The rows after a batch with these sums; `keep` [classes] is what stays of an old row. A class met for the first
  // time takes the batch's mean.
  torch::Tensor updated(const torch::Tensor& sums, const torch::Tensor& keep, bool exact) const;
  void set(const torch::Tensor& rows) { rows_ = rows; }

  void state(StateVisitor& visitor);

 private:
  std::string name_;
  std::vector<std::string> labels_;
  torch::Tensor rows_;
};

// Of every vector the row with the largest cos(tanh(row), tanh(vector)), as it is; rows of zeros are never the nearest
// unless `zeros` may be. A vector of zeros (no picture) finds none: zeros. [B, width]
torch::Tensor nearest_rows(const torch::Tensor& rows, const torch::Tensor& vectors, bool zeros);

}  // namespace asr
