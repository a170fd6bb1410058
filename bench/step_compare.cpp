// The C++ side of tools/bench_step.py: reads a number of training steps a line, answers with their times. One step is
// forward, loss, backward and AdamW of a built-in backbone with LoRA on its frozen weights.
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "backbones/tiny.h"
#include "base/error.h"
#include "tensor/runtime.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

constexpr int64_t kVocabulary = 256, kRank = 16, kBatch = 32, kText = 14;

TinyBatch make_batch(const TinyConfig& config) {
  TinyBatch b;
  b.pixels = torch::rand({kBatch, 3, config.vision.image, config.vision.image});
  b.ids = torch::randint(0, kVocabulary, {kBatch, kText}, at::kLong);
  b.mask = torch::ones({kBatch, kText}, at::kBool);
  b.mask.slice(0, 0, kBatch, 2).select(1, kText - 1).fill_(false);
  b.labels = torch::full({kBatch, kText}, -1, at::kLong);
  b.labels.narrow(1, kText - 4, 3).copy_(b.ids.narrow(1, kText - 4, 3));
  b.question = torch::zeros({kBatch, kText}, at::kBool);
  b.question.narrow(1, 1, kText - 5).fill_(true);
  return b;
}

class AdamW {
 public:
  explicit AdamW(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const auto& p : parameters_) first_.push_back(torch::zeros_like(p)), second_.push_back(torch::zeros_like(p));
  }
  void step(const std::vector<torch::Tensor>& grads) {
    at::NoGradGuard no_grad;
    ++steps_;
    const double first_left = 1 - std::pow(0.9, steps_), second_left = 1 - std::pow(0.999, steps_), rate = 1e-4;
    for (size_t i = 0; i < grads.size(); ++i) {
      first_[i].mul_(0.9).add_(grads[i], 0.1);
      second_[i].mul_(0.999).addcmul_(grads[i], grads[i], 0.001);
      const auto scale = (second_[i] / second_left).sqrt_().add_(1e-8);
      parameters_[i].mul_(1 - rate * 0.01).addcdiv_(first_[i], scale, -rate / first_left);
    }
  }

 private:
  std::vector<torch::Tensor> parameters_, first_, second_;
  int steps_ = 0;
};

void serve() {
  configure_runtime(0);
  torch::manual_seed(1);
  auto model = TinyBackbone::random(tiny_config("S", kVocabulary), 1);
  const auto batch = make_batch(model.config());
  std::vector<torch::Tensor> learnt;
  for (const auto& [name, tensor] : model.add_experts(kRank, 2 * kRank, 2)) learnt.push_back(tensor);
  AdamW optimizer(learnt);
  for (int steps; std::cin >> steps;) {
    auto times = nlohmann::json::array();
    for (int i = 0; i < steps; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto loss = model.forward(batch, {}, 0).loss;
      optimizer.step(gradients(loss, learnt));
      check(std::isfinite(loss.item<double>()), "the loss is not finite");
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::cout << times.dump() << std::endl;
  }
}

}  // namespace
}  // namespace asr

int main(int count, char** arguments) {
  if (count == 3 && std::string(arguments[1]) == "--serve" && std::string(arguments[2]) == "decoder")
    return asr::serve(), 0;
  std::cerr << "run me through: tools/bench_step.py --against " << arguments[0] << "\n";
  return 2;
}
