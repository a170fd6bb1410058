#include "train/run_presets.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

// Appendix "Training Details" and "LoRA configuration"; rank 16 on queries and values, AdamW at its usual betas.
const std::vector<Assignment>& paper_values() {
  static const std::vector<Assignment> list = {
      {"recipe", "asr-paper", ""}, {"learning_rate", "2e-4", ""},    {"lr_scheduler_type", "cosine", ""},
      {"warmup_ratio", "0", ""},   {"weight_decay", "0.01", ""},     {"num_train_epochs", "1", ""},
      {"lora_rank", "16", ""},     {"lora_alpha", "32", ""},         {"lora_dropout", "0.05", ""},
      {"lora_sites", "usual", ""}, {"projector", "adapter", ""},     {"attention.layers", "4", ""},
      {"max_grad_norm", "1", ""},  {"geometry.batch", "global", ""},
  };
  return list;
}

constexpr char kBestMethod[] = "route";

// Those of configs/asr-best.yaml, which says why.
const std::vector<Assignment>& best_values() {
  static const std::vector<Assignment> list = {{"method", kBestMethod, ""},
                                               {"route.further", "[late]", ""},
                                               {"route.start", "auto", ""},
                                               {"num_train_epochs", "2", ""}};
  return list;
}

struct Declared {
  std::string method;
  Assignment value;
};

bool names(const std::vector<Assignment>& list, const std::string& key) {
  return std::any_of(list.begin(), list.end(), [&](const Assignment& a) { return a.key == key; });
}

// Runs of one folder share their options, so methods that differ in one that nobody set cannot run together.
std::vector<Assignment> native_values(const RunOptions& run, const std::vector<Assignment>& given) {
  std::vector<Declared> all;
  for (const auto& composition : run.method)
    for (const auto& part : method_parts(composition))
      for (const auto& value : make_method(part)->native()) {
        const auto same =
            std::find_if(all.begin(), all.end(), [&](const Declared& other) { return other.value.key == value.key; });
        check(same == all.end() || same->value.value == value.value || names(given, value.key), "preset: native is ",
              value.key, "=", same == all.end() ? "" : same->value.value, " for ",
              same == all.end() ? "" : same->method, " and ", value.value, " for ", part, "; run them apart, or set ",
              value.key);
        if (same == all.end()) all.push_back({part, value});
      }
  check(!all.empty(), "preset: native: ", join(run.method, ", "), run.method.size() == 1 ? " has" : " have",
        " no settings of its own; use preset=asr-paper or none");
  std::vector<Assignment> out;
  for (const auto& declared : all) out.push_back(declared.value);
  return out;
}

// With another method, which somebody set, the preset would be a name for nothing.
void check_best_method(const RunOptions& run, const std::vector<Assignment>& given) {
  if (!names(given, "method")) return;
  const bool there = std::any_of(run.method.begin(), run.method.end(), [](const std::string& composition) {
    const auto parts = method_parts(composition);
    return std::find(parts.begin(), parts.end(), kBestMethod) != parts.end();
  });
  check(there, "preset: asr-best is a setting of the method ", kBestMethod, ", but method is ", join(run.method, ", "),
        "; set method=", kBestMethod, " too, or leave method out");
}

std::vector<Assignment> preset_values(const RunOptions& run, const std::vector<Assignment>& given) {
  if (run.preset == RunPreset::native) return native_values(run, given);
  if (run.preset == RunPreset::asr_paper) return paper_values();
  check_best_method(run, given);
  return best_values();
}

}  // namespace

std::string PresetValues::note() const {
  if (name.empty()) return "";
  std::vector<std::string> set, kept;
  for (const auto& a : taken) set.push_back(a.key + "=" + a.value);
  for (const auto& a : left) kept.push_back(a.key);
  return cat(name, ": ", set.empty() ? "nothing" : join(set, ", "),
             kept.empty() ? "" : "; as given: " + join(kept, ", "));
}

PresetValues values_of_preset(const RunOptions& run, const std::vector<Assignment>& given) {
  PresetValues out;
  if (run.preset == RunPreset::nothing) return out;
  out.name = enum_name(run.preset);
  for (auto value : preset_values(run, given)) {
    value.origin = "preset " + out.name;
    (names(given, value.key) ? out.left : out.taken).push_back(value);
  }
  return out;
}

}  // namespace asr
