#include "train/gradient_sum.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"

namespace asr {
namespace {

// A read of one number waits for what the device has been given so far, and for nothing that other streams do.
void wait_for_device(const torch::Tensor& values) {
  if (values.is_cuda()) values.narrow(0, 0, 1).cpu();
}

}  // namespace

struct GradientSum::Inside {
  struct Stretch {
    Part entries;               // of the flat buffer
    int64_t parameters = 0;     // it holds
    int64_t missing = 0;        // whose gradients are not there yet
    std::function<void()> end;  // waits for its sum; empty: not started
  };

  const Team& team;
  torch::Tensor gradient;
  std::vector<Stretch> stretches;  // in the order in which they go out
  std::vector<size_t> stretch_of;  // of every parameter
  std::vector<bool> made;          // its gradient, in this backward pass
  std::mutex mutex;                // a GPU's backward pass runs on a thread of its own
  bool overlapping = false;
  size_t next = 0;  // stretch to go out
  int64_t early = 0;

  Inside(const Team& processes, const torch::Tensor& flat) : team(processes), gradient(flat) {}

  void start_next() {
    auto& stretch = stretches[next++];
    stretch.end = team.start_sum(gradient.narrow(0, stretch.entries.begin, stretch.entries.size()));
  }

  void gradient_made(size_t parameter) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!overlapping) return;
    check(!made[parameter], "a gradient came twice in one backward pass; this is a defect");
    made[parameter] = true;
    --stretches[stretch_of[parameter]].missing;
    for (; next < stretches.size() && stretches[next].missing == 0; ++early) start_next();
  }
};

namespace {

using torch::autograd::variable_list;

// Called when the gradient of one parameter has been added to its place.
struct GradientMade final : torch::autograd::FunctionPostHook {
  explicit GradientMade(std::function<void()> tell) : tell_(std::move(tell)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    tell_();
    return outputs;
  }

 private:
  std::function<void()> tell_;
};

}  // namespace

GradientSum::GradientSum(const Team& team, const std::vector<torch::Tensor>& parameters, const torch::Tensor& gradient,
                         int64_t stretch)
    : inside_(std::make_shared<Inside>(team, gradient)) {
  auto& in = *inside_;
  in.stretch_of.resize(parameters.size());
  in.made.resize(parameters.size());
  int64_t end = in.gradient.numel();
  for (size_t i = parameters.size(); i-- > 0;) {
    const int64_t begin = end - parameters[i].numel();
    if (in.stretches.empty() || in.stretches.back().entries.size() >= stretch)
      in.stretches.push_back({{begin, end}, 0, 0, {}});
    in.stretches.back().entries.begin = begin;
    ++in.stretches.back().parameters;
    in.stretch_of[i] = in.stretches.size() - 1;
    end = begin;
  }
  check(end == 0, "the gradients' buffer is not that of the parameters; this is a defect");
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto node = torch::autograd::impl::grad_accumulator(parameters[i]);
    check(node != nullptr, "a parameter that is trained takes no gradient; this is a defect");
    // The hook goes with this object; the node may live longer, in a graph that somebody holds.
    std::weak_ptr<Inside> inside = inside_;
    auto hook = std::make_unique<GradientMade>([inside, i] {
      if (const auto here = inside.lock()) here->gradient_made(i);
    });
    const auto key = node->add_post_hook(std::move(hook));
    nodes_.push_back({std::move(node), key});
  }
}

GradientSum::~GradientSum() {
  for (auto& [node, key] : nodes_) node->del_post_hook(key);
}

void GradientSum::overlap() {
  auto& in = *inside_;
  const std::lock_guard<std::mutex> lock(in.mutex);
  std::fill(in.made.begin(), in.made.end(), false);
  for (auto& stretch : in.stretches) stretch.missing = stretch.parameters;
  in.overlapping = true;
}

void GradientSum::finish() {
  auto& in = *inside_;
  wait_for_device(in.gradient);
  const double start = now();
  {
    const std::lock_guard<std::mutex> lock(in.mutex);
    in.overlapping = false;
    while (in.next < in.stretches.size()) in.start_next();
  }
  for (auto& stretch : in.stretches) {
    stretch.end();
    stretch.end = {};
  }
  in.next = 0;
  last_early_ = std::exchange(in.early, 0);
  wait_for_device(in.gradient);
  waited_ = now() - start;
}

int64_t GradientSum::stretches() const {
  return static_cast<int64_t>(inside_->stretches.size());
}

int64_t GradientSum::bytes() const {
  return static_cast<int64_t>(inside_->gradient.nbytes());
}

}  // namespace asr
