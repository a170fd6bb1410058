// MoELoRA (CoIN, Chen et al. 2024): n low-rank experts a linear, weighed token by token by a softmax router, all of
// them always: y = W x + s sum_i softmax(W_r x)_i B_i A_i x. Everything stays trainable in every stage; nothing is
// kept.
#include "methods/method.h"
#include "methods/terms/recipes.h"
#include "methods/terms/sites.h"

namespace asr {
namespace {

class MoeLora final : public Method {
 public:
  void visit(OptionVisitor& visitor) override {
    visitor("experts", experts_, 1, 256,
            "a linear; lora_rank is shared out among them, lora_alpha / lora_rank scales each");
    visitor("sites", sites_, kAdaptedSitesHelp);
  }
  std::vector<Assignment> native() const override { return llava_recipe(128, 256); }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int) const override {
    return AdapterLayout{
        alike(kTrainedSlot, adapted_sites(sites, plain, sites_), routed_experts(plain, experts_, "moelora"))};
  }

 private:
  int64_t experts_ = 8;
  AdaptedSites sites_ = AdaptedSites::run;
};

}  // namespace

std::unique_ptr<Method> make_moelora_method() {
  return std::make_unique<MoeLora>();
}

}  // namespace asr
