#include "base/interrupt.h"

#include <sys/wait.h>

#include <functional>

#include "tests/support/files.h"

namespace asr {
namespace {

struct Ended {
  int status = 0;
  std::string said;
};

// Runs `body` in a child whose stderr is a file; the child ends with what `body` returns.
Ended in_child(const std::function<int()>& body) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen((folder / "said").c_str(), "w", stderr)) _exit(99);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_text(folder / "said")};
}

TEST(Interrupt, TheFirstSignalIsAcknowledgedAndRemembered) {
  for (const int number : {SIGINT, SIGTERM}) {
    const auto ended = in_child([number] {
      const HearSignals hear("saving");
      if (interrupted() != 0) return 1;
      raise(number);
      return interrupted() == number ? 42 : 2;
    });
    EXPECT_EQ(ended.status, 42);
    EXPECT_EQ(ended.said, number == SIGINT ? "asr: Ctrl-C; saving\n" : "asr: SIGTERM; saving\n");
  }
}

TEST(Interrupt, ASecondOneEndsAtOnceWhicheverItIs) {
  for (const int second : {SIGINT, SIGTERM}) {
    const auto ended = in_child([second] {
      const HearSignals hear("saving");
      raise(SIGINT);
      raise(second);
      return 1;
    });
    EXPECT_EQ(ended.status, 128 + second);
    EXPECT_EQ(ended.said, "asr: Ctrl-C; saving\n");
  }
}

TEST(Interrupt, WhereNothingIsToBeSavedTheFirstOneEnds) {
  const auto ended = in_child([] {
    const HearSignals hear("nothing is lost", HearSignals::First::ends);
    raise(SIGTERM);
    return 1;
  });
  EXPECT_EQ(ended.status, 143);
  EXPECT_EQ(ended.said, "asr: SIGTERM; nothing is lost\n");
}

TEST(Interrupt, GuardsNestAndGiveBackWhatWasThere) {
  const auto inner = in_child([] {
    const HearSignals outer("outer", HearSignals::First::ends);
    {
      const HearSignals hear(nullptr);
      raise(SIGINT);
    }
    forget_stop();
    raise(SIGTERM);
    return 1;
  });
  EXPECT_EQ(inner.status, 143);
  EXPECT_EQ(inner.said, "asr: SIGTERM; outer\n");
  const auto after = in_child([] {
    { const HearSignals hear("gone"); }
    raise(SIGTERM);
    return 1;
  });
  EXPECT_EQ(after.status, -SIGTERM);  // the default again
}

TEST(Interrupt, AStopCarriesItsExitStatus) {
  plan_stop(SIGTERM, StopPlace::walk, 2);
  EXPECT_EQ(interrupted(StopPlace::step), 0);
  EXPECT_NO_THROW(stop_if_interrupted("too early"));
  const auto message = error_of([] { stop_if_interrupted("here"); }, 143);
  EXPECT_EQ(message, "stopped here");
  EXPECT_EQ(interrupted(StopPlace::step), SIGTERM);  // it stays heard, everywhere
  forget_stop();
  EXPECT_EQ(interrupted(), 0);
}

}  // namespace
}  // namespace asr
