// VQACL (Zhang et al. 2023): two vectors beside a sample's own, the prototypes of the question type and of the object
// class that are nearest to it, stand in the sequence after the visual tokens; and a replay buffer by stage and object
// group, with a step of its own after every step. Prototypes are running means of mean question embeddings and of mean
// visual tokens as they enter the language model, adapters off; every training batch moves those of its classes before
// it retrieves. Answering retrieves alike and needs no label.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "methods/method.h"
#include "methods/terms/class_prototypes.h"
#include "methods/terms/group_replay.h"

namespace asr {
namespace {

class Vqacl final : public Method {
 public:
  Keeps keeps() const override { return Keeps::samples; }
  std::vector<Assignment> native() const override { return GroupReplay::recipe(); }
  // Two memories in a run would each be the other's past.
  bool combines_with(const Method& other) const override { return other.keeps() != Keeps::samples; }

  void visit(OptionVisitor& visitor) override {
    replay_.visit(visitor);
    visitor("alpha", alpha_, 0, 1, "what a question type of an earlier stage keeps of its prototype in an update");
    visitor("beta", beta_, 0, 1, "what an object class keeps of its prototype in an update");
    visitor("exact", exact_,
            "as released: classes that a batch lacks move towards zero, and every stage forgets the object classes");
  }
  void prepare(Backbone&, const Options&) override { replay_.prepare(); }

  // Types, replay and half of what is inserted need no category, so that it runs without.
  void plan(const PhasePlan& stage, std::vector<Phase>&) const override {
    if (stage.stage > 1 || !stage.warn || !stage.uncategorised) return;
    const auto tasks = stage.uncategorised();
    if (tasks.empty()) return;
    stage.warn(cat("vqacl: no sample of ", join(tasks, ", "), " names an object category, so that one prototype is ",
                   "that of all their pictures; give rows a 'category'"));
  }

  void begin_stage(StageContext&) override {
    if (exact_ == Switch::yes) objects_.forget();
  }
  void before_stage(StageContext& stage) override {
    replay_.open(stage);
    team_ = &stage.team;
    for (const auto& info : stage.data.infos()) {
      types_.add(type_of(info));
      objects_.add(info.category);
    }
    // Types of this stage follow the batch at hand, those of earlier ones keep a part.
    std::vector<double> keep(static_cast<size_t>(types_.size()), alpha_);
    for (const auto& info : stage.data.infos()) keep[static_cast<size_t>(types_.row_of(type_of(info)))] = 0;
    keep_ = torch::tensor(keep);
  }

  void mix_batch(SampleBatch& batch, Share& share, const Backbone& model, uint64_t) override {
    replay_.note(batch);
    learn(batch, share, model);
  }
  bool extra_batch(OwnBatch& own, const Backbone& model, uint64_t key) override {
    if (!replay_.fill(own, model, key)) return false;
    learn(own.batch, own.share, model);
    return true;
  }

  // A sample counts for what its answer is worth among those given to its question.
  torch::Tensor sample_weights(const SampleBatch& batch) const override {
    std::vector<float> out;
    for (const auto& info : batch.info) out.push_back(static_cast<float>(worth(info)));
    return torch::tensor(out).to(batch.input.ids.device());
  }

  // All passes of a step, on all processes, are one batch.
  void after_backward(GradientContext& context) override {
    replay_.note(context.phase);
    if (!seen_types_.defined()) return;
    team_->sum(seen_types_);
    team_->sum(seen_objects_);
    types_.set(types_.updated(seen_types_, keep_, exact_ == Switch::yes));
    objects_.set(objects_.updated(seen_objects_, object_keep(), exact_ == Switch::yes));
    seen_types_ = seen_objects_ = torch::Tensor();
  }

  // Batches that are trained on have their vectors already.
  void route(RouteContext& context) override {
    if (!context.inserted || context.batch.input.inserted.defined() || !types_.known()) return;
    const auto [question, picture] = vectors_of(context.model, context.batch);
    const bool zeros = exact_ == Switch::yes;
    *context.inserted =
        at::stack({nearest_rows(types_.rows(), question, zeros), nearest_rows(objects_.rows(), picture, zeros)}, 1);
  }

  std::string answers_with() const override { return "prototypes that vqacl inserts after the visual tokens"; }

  void after_stage(StageContext& stage) override { replay_.share_out(stage); }

  void state(StateVisitor& visitor) override {
    replay_.state(visitor);
    types_.state(visitor);
    objects_.state(visitor);
  }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    auto out = GroupReplay::kept();
    for (const std::string name : {"types", "objects"}) {
      out.push_back({name + ".classes", StateKind::statistics, {kAnySize}});
      out.push_back({name + ".rows", StateKind::statistics, {kAnySize, sizes.widest_site}});
    }
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    auto out = replay_.costs(run);
    constexpr double kClasses = 90;  // the paper's question types and object classes
    out.device_bytes += 4 * kClasses * run.width;
    out.checkpoint_bytes += 4 * kClasses * run.width;
    out.picture_passes = out.answer_picture_passes = 1;  // what is retrieved is read off the picture first
    return out;
  }

 private:
  // VQACL's tasks are question types: a stream that does not name them has one a stage.
  static std::string type_of(const SampleInfo& info) {
    return info.type.empty() ? cat("stage ", info.stage) : info.type;
  }
  static double worth(const SampleInfo& info) {
    double most = 0;
    for (const auto& [answer, score] : answer_scores(info)) {
      if (answer == info.answer) return score;
      most = std::max(most, score);
    }
    return most;  // spelt otherwise than anybody did: the answer of the most
  }

  // What enters the base's language model: mean over question tokens and over visual tokens, [B, width]; zeros where
  // there is no picture.
  static std::pair<torch::Tensor, torch::Tensor> vectors_of(const Backbone& model, const SampleBatch& batch) {
    at::NoGradGuard no_grad;
    Want want;
    want.loss = false;
    want.early = true;
    const auto out = model.forward(batch.input, Pass{0, nullptr}, want);
    const auto question = out.text_input.to(at::kFloat);
    return {question, out.image_input.to(at::kFloat)};
  }

  torch::Tensor object_keep() const { return at::full({objects_.size()}, beta_); }

  // Adds a batch's part to what moves the prototypes after the step, and inserts what is nearest among them as this
  // pass would move them.
  void learn(SampleBatch& batch, const Share& share, const Backbone& model) {
    at::NoGradGuard no_grad;
    const auto [question, picture] = vectors_of(model, batch);
    std::vector<std::string> types, categories;
    for (const auto& info : batch.info) {
      types.push_back(type_of(info));
      categories.push_back(info.category);
    }
    const auto moved = [&](const ClassPrototypes& prototypes, torch::Tensor mine, torch::Tensor& pending,
                           const torch::Tensor& keep) {
      if (share.positions.empty()) mine.zero_();  // a stand-in
      pending = pending.defined() ? pending + mine : mine.clone();
      share.team.sum(mine);
      return prototypes.updated(mine, keep, exact_ == Switch::yes);
    };
    const auto type_rows = moved(types_, types_.sums(question, types), seen_types_, keep_);
    const auto object_rows = moved(objects_, objects_.sums(picture, categories), seen_objects_, object_keep());
    const bool zeros = exact_ == Switch::yes;
    batch.input.inserted =
        at::stack({nearest_rows(type_rows, question, zeros), nearest_rows(object_rows, picture, zeros)}, 1);
  }

  double alpha_ = 0.5, beta_ = 0.3;
  Switch exact_ = Switch::no;
  GroupReplay replay_;
  ClassPrototypes types_ = ClassPrototypes("types"), objects_ = ClassPrototypes("objects");
  const Team* team_ = nullptr;               // of the run, while a stage is trained
  torch::Tensor keep_;                       // [types]
  torch::Tensor seen_types_, seen_objects_;  // sums of the step in hand, this process's part
};

}  // namespace

std::unique_ptr<Method> make_vqacl_method() {
  return std::make_unique<Vqacl>();
}

}  // namespace asr
