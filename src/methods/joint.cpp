// The upper bound: one run on the union of all tasks.
#include "methods/method.h"

namespace asr {
namespace {

class Joint final : public Method {
 public:
  Keeps keeps() const override { return Keeps::samples; }
  bool joint() const override { return true; }
  bool combines_with(const Method&) const override { return false; }
};

}  // namespace

std::unique_ptr<Method> make_joint_method() {
  return std::make_unique<Joint>();
}

}  // namespace asr
