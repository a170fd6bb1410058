#include "tensor/state.h"

#include "base/error.h"

namespace asr {

const char* name_of(StateKind kind) {
  static constexpr const char* names[] = {"statistics", "prototypes", "adapter", "teacher",
                                          "sample",     "question",   "answer"};
  return names[static_cast<int>(kind)];
}

void StateVisitor::number(const std::string& name, StateKind kind, int64_t& value) {
  auto tensor_value = torch::tensor({value}, at::kLong);
  tensor(name, kind, tensor_value);
  check(tensor_value.defined() && tensor_value.numel() == 1, "state '", name, "' is no number");
  value = tensor_value.item<int64_t>();
}

}  // namespace asr
