// A run that is ended again and again, without warning and by a signal, and goes on each time.
#pragma once

#include "base/interrupt.h"
#include "tests/train/run_support.h"

namespace asr {

// A process alone that is gone, without a word, before its second large sum is back: the gradient of a step, or what a
// method has measured.
class Mortal final : public Team {
 public:
  void sum(torch::Tensor& values) const override {
    if (values.numel() > 100 && ++sums_ == 2) throw std::runtime_error("killed");
  }

 private:
  mutable int sums_ = 0;
};

// The first attempts do not live long: they die and are stopped by turns. Returns how many it took.
inline int run_through_ends(const std::vector<Assignment>& options, int short_lived) {
  for (int attempt = 0;; ++attempt) {
    const Mortal mortal;
    const Team calm;
    const bool kill = attempt < short_lived && attempt % 2 == 0, stop = attempt < short_lived && !kill;
    if (stop) plan_stop(SIGINT, StopPlace::step);
    bool ended = false;
    try {
      run_all({resolve_run(options), attempt > 0, "test", kill ? &mortal : &calm});
      ended = true;
    } catch (const std::exception& end) {
      EXPECT_TRUE(kill || stop) << end.what();
      EXPECT_CONTAINS(std::string(end.what()), kill ? "killed" : "--resume");
    }
    forget_stop();
    if (ended || attempt >= short_lived) return attempt + 1;
  }
}

}  // namespace asr
