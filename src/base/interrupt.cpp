#include "base/interrupt.h"

#include <unistd.h>

#include <cstring>

namespace asr {
namespace {

volatile std::sig_atomic_t heard = 0, first_ends = 0, on_terminal = 0;
const char* volatile promised = nullptr;

struct PlannedStop {
  int signal_number = 0;
  StopPlace place = StopPlace::walk;
  int64_t after = 0;
};
PlannedStop planned;

// Only calls that a handler may make.
void say(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

void hear(int number) {
  if (heard != 0) _exit(128 + number);
  heard = number;
  if (promised) {
    if (on_terminal) say("\n");  // a progress line stands there
    say(number == SIGINT ? "asr: Ctrl-C; " : "asr: SIGTERM; ");
    say(promised);
    say("\n");
  }
  if (first_ends) _exit(128 + number);
}

}  // namespace

HearSignals::HearSignals(const char* promise, First first)
    : old_promise_(promised), old_first_(first_ends ? First::ends : First::is_remembered) {
  promised = promise;
  first_ends = first == First::ends;
  on_terminal = isatty(STDERR_FILENO);
  struct sigaction action = {};
  action.sa_handler = hear;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
  // Work of hours does not end because nobody reads what it says any more.
  struct sigaction ignored = {};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignored, &old_pipe_);
}

HearSignals::~HearSignals() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGPIPE, &old_pipe_, nullptr);
  promised = old_promise_;
  first_ends = old_first_ == First::ends;
}

int interrupted(StopPlace place) {
  if (planned.after > 0 && planned.place == place && --planned.after == 0) heard = planned.signal_number;
  return heard;
}

void stop_if_interrupted(const std::string& where) {
  if (const int number = interrupted()) throw Stopped("stopped " + where, number);
}

void plan_stop(int signal_number, StopPlace place, int64_t after) {
  planned = {signal_number, place, after};
}

void forget_stop() {
  heard = 0;
  planned = {};
}

}  // namespace asr
