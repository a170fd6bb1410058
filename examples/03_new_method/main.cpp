// A new method in one file, beside those of the program: every site gets two experts, and how they are weighed is
// learnt in a phase of its own at the end of each stage.
//   build/examples/example_03_new_method run configs/world-10.yaml --set method=mixed --set output_dir=out/mixed
#include "cli/program.h"
#include "methods/method.h"

namespace {

class Mixed final : public asr::Method {
 public:
  void visit(asr::OptionVisitor& visitor) override {
    visitor("epochs", epochs_, 0, 1000, "of the phase that learns the weights of the experts");
  }
  void prepare(asr::Backbone& model, const asr::Options&) override { mix_ = mix_.to(model.device()); }

  // The gate: two experts where a plain run has one, with weights that `route` gives.
  std::optional<asr::AdapterLayout> layout(const std::vector<asr::AdapterSite>&, const asr::SlotLayout& plain,
                                           int) const override {
    asr::SlotLayout slot = plain;
    for (auto& site : slot.sites) {
      site.experts = 2;
      site.training.kind = site.answering.kind = asr::GateKind::given;
    }
    return asr::AdapterLayout{slot};
  }
  void route(asr::RouteContext& pass) override {
    pass.given[pass.bank.number(asr::kTrainedSlot)] = 2 * mix_.softmax(0);  // [experts]; per sample: [B, experts]
  }

  // The phase: the stage's own training leaves the weights alone, then a short phase trains nothing else.
  std::vector<asr::ParameterGroup> parameters() override { return {{"mix", {{"mixed.mix", mix_}}}}; }
  void plan(const asr::PhasePlan& stage, std::vector<asr::Phase>& phases) const override {
    for (auto& phase : phases) phase.trains = {"adapters", "task"};
    asr::Phase mix;
    mix.name = "mix";
    mix.trains = {"mix"};
    mix.steps = stage.steps(epochs_, stage.samples);
    phases.push_back(mix);
  }

  // What it keeps between stages, and the most that this may be.
  void state(asr::StateVisitor& visitor) override { visitor.tensor("mix", asr::StateKind::adapter, mix_); }
  std::vector<asr::StateShape> kept(const asr::StateSizes&) const override {
    return {{"mix", asr::StateKind::adapter, {2}}};
  }

 private:
  double epochs_ = 0.25;
  torch::Tensor mix_ = torch::zeros({2});
};

}  // namespace

int main(int argc, char** argv) {
  asr::add_method("mixed", "two experts a site, weighed in a phase of its own",
                  [] { return std::make_unique<Mixed>(); });
  return asr::program(argc, argv);
}
