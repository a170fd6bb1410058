// Sequential fine-tuning of one adapter as in CoIN (Chen et al. 2024): plain training, with the settings of the LLaVA
// family as its own.
#include "methods/method.h"
#include "methods/terms/recipes.h"

namespace asr {
namespace {

class LoraFt final : public Method {
 public:
  std::vector<Assignment> native() const override { return llava_recipe(128, 256); }
};

}  // namespace

std::unique_ptr<Method> make_lora_ft_method() {
  return std::make_unique<LoraFt>();
}

}  // namespace asr
