#include "methods/terms/recipes.h"

#include "base/error.h"

namespace asr {

std::vector<Assignment> llava_recipe(int64_t rank, int64_t alpha, int64_t batch, int64_t passes) {
  std::vector<Assignment> out = {{"learning_rate", "2e-4", ""},          {"lr_scheduler_type", "cosine", ""},
                                 {"warmup_ratio", "0.03", ""},           {"weight_decay", "0", ""},
                                 {"num_train_epochs", "1", ""},          {"lora_rank", cat(rank), ""},
                                 {"lora_alpha", cat(alpha), ""},         {"lora_sites", "all", ""},
                                 {"lora_dropout", "0.05", ""},           {"projector", "full", ""},
                                 {"projector_learning_rate", "2e-5", ""}};
  if (batch > 0) out.push_back({"per_device_train_batch_size", cat(batch), ""});
  if (batch > 0) out.push_back({"gradient_accumulation_steps", cat(passes), ""});
  return out;
}

}  // namespace asr
