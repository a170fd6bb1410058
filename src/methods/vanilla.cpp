// Sequential fine-tuning: the adapter is carried from stage to stage and nothing else.
#include "methods/method.h"

namespace asr {

std::unique_ptr<Method> make_vanilla_method() {
  return std::make_unique<Method>();
}

}  // namespace asr
