#include "base/error.h"
#include "ops/token_weights.h"

namespace asr {
namespace {

// On the CPU, as the training loop has its masks: a dozen operators on a few hundred numbers would cost more than the
// rest of the loss. chosen(b, t) and usable(b, t) say what the masks hold.
template <class Chosen, class Usable>
torch::Tensor token_weights_of(int64_t batch, int64_t tokens, const Chosen& chosen, const Usable& usable) {
  const auto out = torch::empty({batch, tokens}, at::kDouble);
  for (int64_t b = 0; b < batch; ++b) {
    double* weight = out.data_ptr<double>() + b * tokens;
    int64_t count = 0, all = 0;
    for (int64_t t = 0; t < tokens; ++t)
      if (usable(b, t)) {
        count += chosen(b, t);
        ++all;
      }
    check(all > 0, "sample ", b, " has no valid token; every sample needs at least one");
    const double share = 1 / static_cast<double>(count > 0 ? count : all);
    for (int64_t t = 0; t < tokens; ++t) weight[t] = usable(b, t) && (count == 0 || chosen(b, t)) ? share : 0;
  }
  return out;
}

}  // namespace

torch::Tensor token_weights_cpu(const torch::Tensor& functional, const torch::Tensor& valid) {
  const auto f = functional.contiguous(), v = valid.contiguous();
  const bool *chosen = f.data_ptr<bool>(), *usable = v.data_ptr<bool>();
  const int64_t tokens = v.size(1);
  const auto in = [tokens](const bool* mask) { return [=](int64_t b, int64_t t) { return mask[b * tokens + t]; }; };
  return token_weights_of(v.size(0), tokens, in(chosen), in(usable));
}

torch::Tensor token_weights_at_cpu(const torch::Tensor& functional, const torch::Tensor& rows) {
  const auto f = functional.contiguous(), r = rows.contiguous();
  const bool* mask = f.data_ptr<bool>();
  const int64_t *at = r.data_ptr<int64_t>(), tokens = r.size(1), width = f.size(1);
  const auto usable = [=](int64_t b, int64_t t) { return at[b * tokens + t] >= 0; };
  const auto chosen = [=](int64_t b, int64_t t) {
    const int64_t position = at[b * tokens + t];
    check(position < width, "a row at position ", position, " of ", width, " tokens");
    return mask[b * width + position];
  };
  return token_weights_of(r.size(0), tokens, chosen, usable);
}

}  // namespace asr
