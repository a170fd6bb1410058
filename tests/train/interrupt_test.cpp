// A run stopped by a signal anywhere (reading samples, references, answering, measuring, Fisher, steps) and resumed
// ends in the same bits; several processes stop together.
#include "base/interrupt.h"

#include "data/walk.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

int status_of_stop(const std::function<void()>& run, std::string& message) {
  try {
    run();
  } catch (const Stopped& stop) {
    message = stop.what();
    return stop.status;
  }
  return 0;
}

// Stops at the first look of a pass, resumes, stops at the second one, and so on until the run ends.
TEST(Interrupted, AtEveryPassOfARunAndResumedItEndsInTheSameBits) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const std::string method = "asr+ewc+er";
  const auto options = [&](const char* out) {
    auto list = small_run(folder / "model", folder / out, method);
    list.push_back({"per_device_eval_batch_size", "4", "test"});
    list.push_back({"save_steps", "100", "test"});
    return list;
  };
  const auto straight = run_small(options("straight"))[0];
  std::set<std::string> stopped_in;
  int status = 130;
  int64_t after = 0;
  for (int attempt = 0; attempt < 200 && status != 0; ++attempt) {
    plan_stop(attempt % 2 ? SIGTERM : SIGINT, StopPlace::walk, ++after);
    std::string message;
    status = status_of_stop([&] { run_small(options("stopped"), attempt > 0); }, message);
    forget_stop();
    if (status == 0) break;
    EXPECT_EQ(status, attempt % 2 ? 143 : 130);
    EXPECT_CONTAINS(message, "go on with --resume");
    const auto first = message.find('"'), last = message.rfind('"');
    const auto where = first == std::string::npos ? message : message.substr(first + 1, last - first - 1);
    stopped_in.insert(where.substr(0, where.find(' ')));
    // A stage begins with passes that the ones before it have not.
    if (message.find("stopped before stage 1") == 0 || message.find("stopped after stage 1") == 0) after = 0;
  }
  EXPECT_EQ(status, 0) << "the run did not end";
  expect_same_run(straight, (folder / "stopped") + "/" + method);
  for (const char* pass : {"read", "see", "skills", "answer", "measure", "Fisher", "reference"})
    EXPECT_TRUE(stopped_in.count(pass)) << pass;
}

TEST(Interrupted, NeverGoesOnWithTheNextMethod) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = small_run(folder / "model", folder / "out", "[vanilla, ewc]");
  // The last look before the second method: found by counting, so that it stays the last.
  int64_t looks = 0;
  for (std::string message; message.find("was complete") == std::string::npos && looks < 500;) {
    plan_stop(SIGINT, StopPlace::walk, ++looks);
    EXPECT_EQ(status_of_stop([&] { run_small(options, looks > 1); }, message), 130) << looks;
    forget_stop();
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "out/vanilla/adapter/adapter_model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/ewc"));
}

// Another process has heard a signal at the n-th look of all.
class Fake final : public Team {
 public:
  Fake(int64_t rank, int64_t when) : rank_(rank), when_(when) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 2; }
  void sum(torch::Tensor& values) const override {
    if (++looks == when_) values[1] += 1;  // SIGTERM
  }
  mutable int64_t looks = 0;

 private:
  int64_t rank_, when_;
};

TEST(Interrupted, ProcessesStopAtTheSameBlock) {
  for (const int64_t rank : {0, 1}) {
    std::vector<int64_t> rows, following;
    const Fake undisturbed(rank, 0);
    each_block({"count", 9, 2}, undisturbed, [&](Part here, Part next) {
      for (int64_t i = here.begin; i < here.end; ++i) rows.push_back(i);
      following.push_back(next.size());
    });
    // Five blocks for two: one has two of them, and still looks three times.
    EXPECT_EQ(rows, rank == 0 ? (std::vector<int64_t>{0, 1, 2, 3}) : (std::vector<int64_t>{4, 5, 6, 7, 8}));
    EXPECT_EQ(following, rank == 0 ? (std::vector<int64_t>{2, 0}) : (std::vector<int64_t>{2, 1, 0}));
    EXPECT_EQ(undisturbed.looks, 3);
    const Fake disturbed(rank, 2);
    int blocks = 0;
    std::string message;
    EXPECT_EQ(status_of_stop(
                  [&] {
                    each_block({"count", 9, 2}, disturbed, [&](Part, Part) { ++blocks; });
                  },
                  message),
              143);
    EXPECT_EQ(blocks, 2);
    EXPECT_EQ(disturbed.looks, 2);
    EXPECT_EQ(message, "stopped in \"count\"; go on with --resume");
  }
}

}  // namespace
}  // namespace asr
