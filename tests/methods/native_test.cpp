// What the authors' settings are, by their publications and code: rates, ranks, batches.
#include <map>

#include "base/text.h"
#include "methods/method.h"
#include "tests/support/files.h"
#include "train/run_options.h"

namespace asr {
namespace {

struct Published {
  double rate, rank, alpha, epochs, batch;  // a step's samples on all devices; 0: not published
  std::string projector;                    // empty: the method has no say in it
};

TEST(Native, SettingsAreThePublishedOnes) {
  const std::map<std::string, Published> known = {
      {"lora-ft", {2e-4, 128, 256, 1, 0, "full"}}, {"moelora", {2e-4, 128, 256, 1, 0, "full"}},
      {"cl-moe", {2e-4, 32, 64, 1, 32, "full"}},   {"keeplora", {2e-4, 32, 8, 1, 64, "full"}},
      {"o-lora", {2e-4, 16, 32, 1, 0, "full"}},    {"hide-llava", {2e-4, 8, 16, 1, 96, "full"}},
      {"sefe", {2e-4, 128, 256, 1, 128, "full"}},  {"branchlora", {2e-4, 128, 256, 1, 0, "full"}},
      {"d-mole", {1e-4, 8, 16, 1, 80, "frozen"}},  {"adapt-inf", {2e-4, 128, 256, 1, 0, "full"}},
      {"pclr", {2e-4, 64, 128, 1, 0, "frozen"}},   {"vqacl", {1e-4, 0, 0, 3, 80, ""}},
      {"quad", {1e-4, 0, 0, 3, 80, ""}},           {"bcp-mfa", {1e-4, 0, 0, 3, 80, ""}}};
  for (const auto& [name, wanted] : known) {
    std::map<std::string, std::string> found;
    for (const auto& setting : make_methods(name, {})[0]->native()) found[setting.key] = setting.value;
    const auto number = [&found = found](const char* key, double otherwise) {
      double out = otherwise;
      const bool given = found.count(key) > 0;
      EXPECT_TRUE(!given || parse_double(found[key], out)) << key;
      return out;
    };
    EXPECT_EQ(number("learning_rate", 0), wanted.rate) << name;
    EXPECT_EQ(number("lora_rank", 0), wanted.rank) << name;
    EXPECT_EQ(number("lora_alpha", 0), wanted.alpha) << name;
    EXPECT_EQ(number("num_train_epochs", 0), wanted.epochs) << name;
    EXPECT_EQ(number("per_device_train_batch_size", 0) * number("gradient_accumulation_steps", 1), wanted.batch)
        << name;
    EXPECT_EQ(found["projector"], wanted.projector) << name;
  }
  for (const auto& info : method_infos()) {
    const bool has = !make_methods(info.name, {})[0]->native().empty();
    EXPECT_EQ(has, known.count(info.name) > 0) << info.name;
  }
}

// What METHODS names beside them: warm-up, clipping and decay. What it does not name is the run's own (empty).
TEST(Native, WarmUpClippingAndDecayAreThePublishedOnes) {
  struct Recipe {
    const char *warm_up, *clip, *decay, *schedule;
  };
  const std::map<std::string, Recipe> known = {{"vqacl", {"0.1", "5", "", ""}},
                                               {"bcp-mfa", {"0.1", "5", "", ""}},
                                               {"quad", {"", "", "0", ""}},  // Adam
                                               {"lora-ft", {"0.03", "", "0", "cosine"}},
                                               {"moelora", {"0.03", "", "0", "cosine"}},
                                               {"cl-moe", {"0.03", "", "0", "cosine"}},
                                               {"keeplora", {"0.03", "", "0", "cosine"}},
                                               {"o-lora", {"0.03", "", "0", "cosine"}},
                                               {"hide-llava", {"0.03", "", "0", "cosine"}},
                                               {"sefe", {"0.03", "", "0", "cosine"}},
                                               {"branchlora", {"0.03", "", "0", "cosine"}},
                                               {"adapt-inf", {"0.03", "", "0", "cosine"}},
                                               {"pclr", {"0.03", "", "0", "cosine"}},
                                               {"d-mole", {"0.03", "", "0.01", "cosine"}}};
  for (const auto& info : method_infos()) {
    std::map<std::string, std::string> found;
    for (const auto& setting : make_methods(info.name, {})[0]->native()) found[setting.key] = setting.value;
    EXPECT_EQ(known.count(info.name), found.empty() ? 0u : 1u) << info.name;
    if (known.count(info.name) == 0) continue;
    const auto& wanted = known.at(info.name);
    EXPECT_EQ(found["warmup_ratio"], wanted.warm_up) << info.name;
    EXPECT_EQ(found["max_grad_norm"], wanted.clip) << info.name;
    EXPECT_EQ(found["weight_decay"], wanted.decay) << info.name;
    EXPECT_EQ(found["lr_scheduler_type"], wanted.schedule) << info.name;
  }
}

}  // namespace
}  // namespace asr
