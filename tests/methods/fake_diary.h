// What the fake methods of these tests saw, for the test that ran them: every thread has its own, so that processes
// that are threads do not write over each other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "methods/method.h"

namespace asr {

struct FakeDiary {
  std::vector<std::string> calls;                                   // hooks, in order
  std::map<int, std::map<std::string, torch::Tensor>> begun, done;  // trained tensors and slots, by stage
  std::map<int, std::vector<std::string>> trained;                  // names, when a stage begins
  std::map<std::string, std::vector<double>> numbers;
  SampleBatch first_batch;             // two samples of the first stage
  std::vector<torch::Tensor> base_of;  // what the base says of them: at the beginning, and after every stage
};

inline FakeDiary& fake_diary() {
  thread_local FakeDiary diary;
  return diary;
}

// Notes all tensors at both ends of a stage, and what the run's base says of the same two samples.
class FakeMethod : public Method {
 public:
  void begin_stage(StageContext& stage) override {
    at::NoGradGuard no_grad;
    auto& diary = fake_diary();
    diary.calls.push_back("begin_stage " + std::to_string(stage.stage));
    change_slots(stage);
    for (const auto& [name, tensor] : stage.bank.trained()) diary.trained[stage.stage].push_back(name);
    if (stage.stage == 1) {
      diary.first_batch = stage.data.rows({0, 1});
      diary.base_of = {base_logits(stage)};
    }
    diary.begun[stage.stage] = copies(stage);
  }
  void after_stage(StageContext& stage) override {
    auto& diary = fake_diary();
    diary.calls.push_back("after_stage " + std::to_string(stage.stage));
    diary.done[stage.stage] = copies(stage);
    finish(stage);
    at::NoGradGuard no_grad;
    if (!diary.base_of.empty()) diary.base_of.push_back(base_logits(stage));
  }

 protected:
  virtual void change_slots(StageContext&) {}
  virtual void finish(StageContext&) {}

 private:
  static torch::Tensor base_logits(StageContext& stage) {
    Want want;  // of the model: an objective may have parameters that are trained
    want.loss = false;
    want.logits = true;
    return stage.model.forward(fake_diary().first_batch.input, Pass{0, nullptr}, want).logits.clone();
  }
  static std::map<std::string, torch::Tensor> copies(StageContext& stage) {
    std::map<std::string, torch::Tensor> out;
    for (const auto& [name, tensor] : stage.bank.tensors()) out[name] = tensor.detach().clone();
    for (const auto& [name, tensor] : stage.parameters) out[name] = tensor.detach().clone();
    return out;
  }
};

}  // namespace asr
