// The processes that train one run together. Each takes a part of every batch and of every measurement, and what they
// find is put together again in order, so that all of them end in the same state. A Team itself is one process alone;
// parallel/data_parallel.h makes larger ones.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

namespace asr {

class Team {
 public:
  virtual ~Team() = default;
  virtual int64_t rank() const { return 0; }
  virtual int64_t size() const { return 1; }
  // Rows [n, ...] of all processes below each other, in order of rank, without gradient. A process that has none gives
  // any tensor without elements. Every process must come here.
  virtual torch::Tensor gather(const torch::Tensor& rows) const { return rows; }
  // Adds up over the processes, in place and to the same bits everywhere; float and double.
  virtual void sum(torch::Tensor&) const {}
  // The same, begun now and done when what is returned is called; `values` lies in one piece and is left alone until
  // then. Sums may overlap; every process begins them in the same order.
  virtual std::function<void()> start_sum(torch::Tensor values) const {
    sum(values);
    return [] {};
  }

  bool leads() const { return rank() == 0; }  // who prints and writes files
  bool any(bool mine) const;                  // whether it is so for any process
  std::vector<std::string> gather_texts(const std::vector<std::string>& texts) const;  // likewise
};

// A stretch of things in order.
struct Part {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// What one process takes of `count` things: stretches in order of rank, whose sizes differ by at most one.
Part part_of(int64_t count, int64_t rank, int64_t size);
Part part_of(int64_t count, const Team& team);

// The samples of a stage's own data that a pass takes, counted from the first pass, where `share` of all samples is
// replayed and a pass has room for `batch` of both: over any number of passes the share is right to within a sample, so
// that it holds for small batches, too, some of which then have more of one kind or none of it.
Part current_samples(int64_t pass, int64_t batch, double share);

// The part of a batch that a process holds. The loss of a batch is the sum of what the processes return for their
// parts, and so is its gradient: means over the batch are scaled by these shares.
struct Share {
  const Team& team;
  std::vector<int64_t> positions =
      {};              // of its samples in the whole batch; empty: it holds a stand-in that counts for 0
  int64_t whole = 0;   // samples of the whole batch
  int64_t room = 0;    // that it has left for replay
  int64_t before = 0;  // samples that processes of lower rank hold
  double samples = 1;  // its part of the samples
  double answers = 1;  // its part of what is learnt: answer tokens, or samples with a closed head

  double process() const { return 1.0 / static_cast<double>(team.size()); }  // for terms that all compute alike
  // The whole batch's rows, by rank; gradients reach this process's own.
  torch::Tensor whole_rows(const torch::Tensor& mine) const;
};

torch::Tensor scaled(const torch::Tensor& value, double share);  // untouched where the share is 1

}  // namespace asr
