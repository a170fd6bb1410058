// What METHODS counts for LLaVA-1.5-7B under the authors' settings, in millions of numbers: adapters and routers by
// what each method lays out on linears of that model's sizes. No weight is made.
#include <cmath>
#include <map>

#include "methods/terms/rank_pool.h"
#include "tests/support/files.h"
#include "train/run_parts.h"

namespace asr {
namespace {

// 32 layers of width 4096 and MLP 11008, a projector 1024 -> 4096 -> 4096, a tower of 24 layers of width 1024.
class LlavaSites {
 public:
  LlavaSites() {
    using S = SitePart;
    for (int64_t layer = 0; layer < 32; ++layer) {
      const auto name = cat("language_model.model.layers.", layer, ".");
      for (const auto& [part, kind] : {std::pair{"q_proj", S::q}, {"k_proj", S::k}, {"v_proj", S::v}, {"o_proj", S::o}})
        add(name + "self_attn." + part, kind, 4096, 4096, layer);
      add(name + "mlp.gate_proj", S::gate, 4096, 11008, layer);
      add(name + "mlp.up_proj", S::up, 4096, 11008, layer);
      add(name + "mlp.down_proj", S::down, 11008, 4096, layer);
    }
    for (int64_t layer = 0; layer < 24; ++layer)
      for (const char* part : {"q", "k", "v", "o"}) add(cat("tower.", layer, ".", part), S::vision, 1024, 1024, layer);
    add("projector.in", S::projector, 1024, 4096, 0);
    add("projector.out", S::projector, 4096, 4096, 0);
  }
  std::vector<AdapterSite> all() const { return sites_; }
  std::pair<double, double> inputs_and_outputs(const std::string& site) const { return sizes_.at(site); }

 private:
  void add(const std::string& name, SitePart part, int64_t in, int64_t out, int64_t layer) {
    sites_.push_back({name, nullptr, part, layer});
    sizes_[name] = {static_cast<double>(in), static_cast<double>(out)};
  }
  std::vector<AdapterSite> sites_;
  std::map<std::string, std::pair<double, double>> sizes_;
};

struct Millions {
  double experts = 0, routers = 0, whole = 0, positions = 0, inputs = 0;  // `positions`, `inputs`: of adapted linears
};

// Of the slots that a stage's layout names.
Millions laid_out(const std::string& name, const std::vector<Assignment>& options, int stage) {
  const auto methods = make_methods(name, options);
  RunOptions run;
  for (const auto& setting : methods[0]->native()) {
    if (setting.key == "lora_rank") run.lora_rank = std::stoll(setting.value);
    if (setting.key == "lora_alpha") run.lora_alpha = std::stod(setting.value);
    if (setting.key == "lora_sites") run.lora_sites = LoraSites::all;
    if (setting.key == "projector")
      run.projector = setting.value == "full" ? ProjectorTraining::full : ProjectorTraining::frozen;
  }
  const LlavaSites model;
  Millions out;
  for (const auto& slot : stage_layout(methods, {name}, model.all(), plain_layout(model.all(), run), stage))
    for (const auto& site : slot.sites) {
      const auto [in, width] = model.inputs_and_outputs(site.site);
      if (site.full) {
        out.whole += in * width / 1e6;
        continue;
      }
      const auto rank = static_cast<double>(site.rank), experts = static_cast<double>(site.experts);
      out.experts += rank * (in * (site.share_a ? 1 : experts) + width * experts) / 1e6;
      if (site.training.kind == GateKind::router) out.routers += static_cast<double>(site.routers) * experts * in / 1e6;
      out.positions += in * width / 1e6;
      out.inputs += in / 1e6;
    }
  return out;
}

TEST(LlavaNumbers, AreThoseOfThePublishedCounts) {
  constexpr double kDigit = 0.05;  // METHODS gives one after the point
  const auto lora = laid_out("lora-ft", {}, 1);
  EXPECT_NEAR(lora.experts, 319.8, kDigit);
  EXPECT_NEAR(lora.whole, 21.0, kDigit);
  const double projector = 16 * (1024 + 3 * 4096) / 1e6;
  EXPECT_NEAR(laid_out("vanilla", {}, 1).experts, 8.39 + projector, 0.01);  // rank 16 on queries and values
  const auto moelora = laid_out("moelora", {{"moelora.sites", "all", ""}}, 1);
  EXPECT_NEAR(moelora.experts, 319.8, kDigit);
  EXPECT_NEAR(moelora.routers, 9.1, kDigit);
  EXPECT_NEAR(moelora.experts + moelora.routers + moelora.whole, 349.9, kDigit);
  const auto branchlora = laid_out("branchlora", {{"branchlora.sites", "all", ""}}, 1);
  EXPECT_NEAR(branchlora.experts, 174.1 + 18.2, 2 * kDigit);
  EXPECT_NEAR(branchlora.routers, 9.1, kDigit);
  EXPECT_NEAR(branchlora.experts + branchlora.routers + branchlora.whole, 222.4, kDigit);
  const auto eighth = laid_out("branchlora", {{"branchlora.sites", "all", ""}}, 8);  // a router a task
  EXPECT_NEAR(eighth.experts, branchlora.experts, 1e-9);
  EXPECT_NEAR(2 * eighth.routers, 146, 0.5);  // MB in bf16, as all that follow
  EXPECT_NEAR(2 * branchlora.experts, 385, 0.5);
  const auto cl_moe = laid_out("cl-moe", {{"cl-moe.sites", "all", ""}}, 1);
  EXPECT_NEAR(cl_moe.experts, 80.0, kDigit);
  EXPECT_NEAR(cl_moe.routers, 1.139 * 4, 0.01);
  EXPECT_NEAR(2 * (cl_moe.experts + cl_moe.routers), 170, 1);
  EXPECT_NEAR(2 * (moelora.experts + moelora.routers), 658, 0.5);
  // A slot a stage.
  EXPECT_NEAR(8 * 2 * laid_out("o-lora", {{"o-lora.sites", "all", ""}}, 3).experts, 640, 0.5);
  EXPECT_NEAR(8 * 2 * laid_out("hide-llava", {{"hide-llava.sites", "all", ""}}, 3).experts, 320, 0.5);
  const auto mole = laid_out("d-mole", {}, 2);  // candidates, of which half get an expert
  EXPECT_NEAR(2 * mole.experts / 2, 10, 0.1);
}

TEST(LlavaNumbers, AreThoseThatPositionsAndDirectionsTake) {
  const auto sefe = laid_out("sefe", {{"sefe.sites", "all", ""}}, 2);
  EXPECT_NEAR(sefe.positions, 6476, 0.5);           // all adapted weights
  EXPECT_NEAR(0.02 * sefe.positions, 129.5, 0.05);  // those that a stage marks
  EXPECT_NEAR(sefe.positions / 8, 810, 0.6);        // MB of a bit each
  const auto keeplora = laid_out("keeplora", {{"keeplora.sites", "all", ""}}, 2);
  EXPECT_NEAR(keeplora.inputs, 1.139, 0.001);
  EXPECT_NEAR(2 * 1000 * keeplora.inputs, 2300, 50);  // MB at 1000 directions of 16 bits a linear
}

// Rank 64 a stage, 256 in the pool and 32 for all samples: 720M of a run, as METHODS counts. A slot has room for the
// most ranks that a stage begins with, 224, beside 64 new ones, so that 320 are laid out.
TEST(LlavaNumbers, AreThoseOfABoundedPool) {
  int64_t most = 0;
  for (int stage = 1; stage <= 8; ++stage) {
    const auto ranks = RankSchedule{256, 64}.at(stage);
    most = std::max(most, ranks.past + ranks.fresh);
  }
  EXPECT_EQ(most, 256);
  const auto pool = laid_out("pclr", {{"pclr.sites", "all", ""}}, 1);
  EXPECT_EQ(pool.whole, 0);  // the projector is frozen
  EXPECT_NEAR(pool.experts, 320 * 2.499, 0.5);
  EXPECT_NEAR(pool.experts * static_cast<double>(most + 32) / 320, 720, 0.5);
}

}  // namespace
}  // namespace asr
