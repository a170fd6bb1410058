// SEFE (Chen et al. 2025). RegLoRA: a fresh adapter a stage, merged into the weights at its end; of its |B A| the
// largest positions of every linear are marked, and later adapters pay for what they write there: L = L_task + weight
// (1 / linears) sum_linears mean_{(i,j) marked} |(B A)_ij|. Answer-style diversification: a share of a stage's samples
// is asked in another style, here by templates of the stage's own answers.
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "data/drawn_rows.h"
#include "methods/method.h"
#include "methods/terms/answer_styles.h"
#include "methods/terms/by_site.h"
#include "methods/terms/marked_positions.h"
#include "methods/terms/recipes.h"
#include "methods/terms/sites.h"

namespace asr {

enum class RepeatedPositions { mask, list };
template <>
struct EnumNames<RepeatedPositions> {
  static constexpr const char* names[] = {"mask", "list"};
};

namespace {

class Sefe final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("weight", weight_, 0, 1e9, "of the mean size of new weights at marked positions; 0: off");
    visitor("marked", marked_, 1e-6, 1, "part of a linear's positions that a finished stage marks, its largest");
    visitor("repeats", repeats_,
            "a position that several stages mark counts once (mask), or once a stage (list), as in the released code");
    visitor("styles", styles_, 0, 1, "part of a stage's samples that is asked in another answer style; 0: none");
    visitor("sites", sites_, kAdaptedSitesHelp);
  }
  std::vector<Assignment> native() const override { return llava_recipe(128, 256, 16, 8); }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    return AdapterLayout{alike(stage_slot(stage), adapted_sites(sites, plain, sites_), plain.sites.at(0))};
  }

  void plan(const PhasePlan& stage, std::vector<Phase>&) const override {
    check(styles_ == 0 || !stage.closed_head,
          "sefe.styles writes answers that a closed list does not have; set head=generate or sefe.styles=0");
  }

  void before_stage(StageContext& stage) override {
    stage_ = stage.stage;
    counts_.clear();
    for (const auto& [site, positions] : positions_) counts_[site] = counts_of(stage, site, positions);
    restyle(stage);
  }

  void add_losses(StepContext& step) override {
    if (counts_.empty() || weight_ == 0) return;
    const auto slot = stage_slot(stage_);
    torch::Tensor sum;
    for (const auto& [site, counts] : counts_) {
      const auto& expert = step.bank.at(slot, site).experts[0];
      const auto mean = marked_mean(expert.b, expert.a, counts);
      sum = sum.defined() ? sum + mean : mean;
    }
    step.add("marked_loss", scaled(sum / static_cast<double>(counts_.size()), step.share.process()), weight_);
  }

  // The rows that are asked in another style take the place of the stage's own.
  void mix_batch(SampleBatch& batch, Share&, const Backbone& model, uint64_t) override {
    if (styled_.empty()) return;
    std::vector<ComposedRow> rows;
    bool any = false;
    for (const auto& info : batch.info) {
      const auto place = rows_.find(row_name(info));
      check(place != rows_.end(),
            "sefe.styles rewrites a stage's own samples, and another method has mixed in others before; set "
            "sefe.styles=0 beside it");
      rows.push_back({place->second, place->second});
      const auto styled = styled_.find(place->second);
      if (styled == styled_.end()) continue;
      rows.back().question = styled->second.question;
      rows.back().answer = styled->second.answer;
      any = true;
    }
    if (!any) return;
    auto made = data_->composed(rows);
    for (auto& info : made.info) info.stage = stage_;
    if (batch.reference_image.defined()) add_reference(made, model);
    batch = std::move(made);
  }

  void after_stage(StageContext& stage) override {
    const auto slot = stage_slot(stage.stage);
    for (const auto& site : stage.bank.layout(slot).sites) {
      const auto& expert = stage.bank.at(slot, site.site).experts[0];
      const int64_t rows = expert.b.size(0), columns = expert.a.size(1);
      const auto count = std::max<int64_t>(1, std::llround(marked_ * static_cast<double>(rows * columns)));
      const auto fresh = largest_positions(expert.b, expert.a, count);
      auto& kept = positions_[site.site];
      if (repeats_ == RepeatedPositions::list)
        kept = kept.defined() ? at::cat({kept, fresh.unsqueeze(0)}) : fresh.unsqueeze(0);
      else
        kept = kept.defined() ? at::bitwise_or(kept, packed_bits(fresh, rows, columns))
                              : packed_bits(fresh, rows, columns);
    }
    stage.bank.merge(slot);
    styled_.clear();
  }

  void state(StateVisitor& visitor) override { visit_by_site(visitor, "marked", positions_); }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    const bool list = repeats_ == RepeatedPositions::list;
    const int64_t most = list ? sizes.stages : sizes.widest_site;
    return {
        {"sites", StateKind::statistics, {sizes.site_names}},
        {"marked.*", StateKind::statistics, {most, list ? sizes.widest_site * sizes.widest_site : sizes.widest_site}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<double>(run.task_samples.size());
    const double linears = run.layers * (sites_ == AdaptedSites::all ? 7 : 2), numbers = run.width * run.width;
    const bool list = repeats_ == RepeatedPositions::list;
    out.host_bytes = linears * numbers * (list ? 8 * marked_ * stages : 1.0 / 8);
    out.device_bytes = 4 * run.parameters * std::max(0.0, stages - 1);  // merged slots keep their factors
    out.checkpoint_bytes = out.host_bytes + out.device_bytes;
    out.device_bytes += linears * numbers * (list ? 1 : 1.0 / 8);
    return out;
  }

 private:
  PositionCounts counts_of(const StageContext& stage, const std::string& site, const torch::Tensor& kept) const {
    const auto& expert = stage.bank.at(stage_slot(stage.stage), site).experts[0];
    const int64_t rows = expert.b.size(0), columns = expert.a.size(1);
    PositionCounts out;
    if (repeats_ == RepeatedPositions::mask) {
      out.bits = kept.to(expert.a.device());
      out.total = static_cast<double>(count_bits(kept));
      return out;
    }
    auto counts = torch::zeros({rows * columns}, at::kByte);
    for (int64_t t = 0; t < kept.size(0); ++t) counts.index_add_(0, kept[t], torch::ones({kept.size(1)}, at::kByte));
    out.counts = counts.view({rows, columns}).to(expert.a.device());
    out.total = static_cast<double>(kept.numel());
    return out;
  }

  // Two rows with the same name have the same texts, so either's may stand for the other's.
  static std::string row_name(const SampleInfo& info) { return cat(info.id, '\n', info.question, '\n', info.answer); }

  void restyle(const StageContext& stage) {
    styled_.clear();
    rows_.clear();
    data_ = &stage.data;
    if (styles_ == 0) return;
    const int64_t count = stage.data.size();
    std::vector<std::string> answers;
    for (int64_t i = count - 1; i >= 0; --i) {
      answers.push_back(stage.data.info(i).answer);
      rows_[row_name(stage.data.info(i))] = i;
    }
    answers = answer_list(answers);
    const auto wanted = std::max<int64_t>(1, std::llround(styles_ * static_cast<double>(count)));
    const uint64_t key = draw_key(DrawPurpose::styles, stage.seed, stage.stage);
    for (const int64_t row : drawn_rows(count, wanted, key)) {
      const auto& info = stage.data.info(row);
      styled_[row] = restyled({info.question, info.answer}, answers, Random({key, static_cast<uint64_t>(row)}).next());
    }
  }

  double weight_ = 2500, marked_ = 0.02, styles_ = 0;
  RepeatedPositions repeats_ = RepeatedPositions::mask;
  AdaptedSites sites_ = AdaptedSites::run;
  int stage_ = 1;
  TensorsBySite positions_;                       // packed bits, or [stages, positions] int64; on the CPU
  std::map<std::string, PositionCounts> counts_;  // of them, where the adapters are
  const SampleSet* data_ = nullptr;               // of the stage
  std::map<std::string, int64_t> rows_;           // by name
  std::map<int64_t, StyledText> styled_;          // rows in another style
};

}  // namespace

std::unique_ptr<Method> make_sefe_method() {
  return std::make_unique<Sefe>();
}

}  // namespace asr
