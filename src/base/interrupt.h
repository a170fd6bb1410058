// Ctrl-C and SIGTERM in commands that run for long. The first signal is acknowledged at once and remembered; the work
// in hand looks for it between two blocks, saves what it has and ends by throwing Stopped. A second one ends the
// process where it stands.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace asr {

// The end that a signal asked for: exit status 130 after Ctrl-C, 143 after SIGTERM.
struct Stopped : Error {
  Stopped(const std::string& message, int signal_number) : Error(message, 128 + signal_number) {}
};

// While one lives, both signals are heard instead of ending the process, and a reader of stdout or stderr that goes
// away does not end it either; they may be nested.
class HearSignals {
 public:
  enum class First { is_remembered, ends };
  // `promise` tells the user what happens now, after the name of the signal; it must outlive the guard. Null: nothing
  // is said (another process of the run says it).
  explicit HearSignals(const char* promise, First first = First::is_remembered);
  ~HearSignals();
  HearSignals(const HearSignals&) = delete;
  HearSignals& operator=(const HearSignals&) = delete;

 private:
  struct sigaction old_int_ = {}, old_term_ = {}, old_pipe_ = {};
  const char* old_promise_;
  First old_first_;
};

// Where work can stop: after a training step, or between two blocks of a walk (data/walk.h).
enum class StopPlace { step, walk };

// The signal that was heard; 0: none.
int interrupted(StopPlace place = StopPlace::walk);
// Throws Stopped where one was heard; `where` is said after "stopped ".
void stop_if_interrupted(const std::string& where);

// For tests: as if `signal_number` came right before the `after`-th look at such a place from now on.
void plan_stop(int signal_number, StopPlace place, int64_t after = 1);
void forget_stop();  // what was heard or planned

}  // namespace asr
