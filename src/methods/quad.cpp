// QUAD (ICCV 2025): of earlier stages only questions are kept. A step asks some of them about its own pictures, and the
// model must answer and look as the previous stage's did: L = (1 - l) L_task + l (L_QR + L_ACD) from the second stage
// on. L_QR is the cross-entropy of the teacher's distributions and the model's where the teacher's own answer is
// predicted; L_ACD that of their attention, rows of question and answer over all earlier tokens, in the last layers.
#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "methods/method.h"
#include "methods/terms/kept_questions.h"
#include "methods/terms/teacher.h"

namespace asr {

enum class QuestionPairing { category, random };
template <>
struct EnumNames<QuestionPairing> {
  static constexpr const char* names[] = {"category", "random"};
};

namespace {

constexpr double kLeast = 1e-12;  // of attention, below the logarithm

// Sums over this process's part, and how many they are of.
struct HeldTo {
  torch::Tensor sum;      // of cross-entropies
  torch::Tensor entropy;  // of the teacher: what the cross-entropy cannot fall below
  double count = 0;
};

// `old` are distributions over the last dimension, the others logarithms.
HeldTo held_to(const torch::Tensor& old, const torch::Tensor& log_old, const torch::Tensor& log_now) {
  return {-(old * log_now).sum(), -(old * log_old).sum(), 0};
}

class Quad final : public Method {
 public:
  bool needs_lasting_adapters() const override { return true; }
  Keeps keeps() const override { return Keeps::teacher; }
  void visit(OptionVisitor& visitor) override {
    visitor("lambda", lambda_, 0, 1, "weight of both terms; the task's loss has the rest. 0: off");
    visitor("question_weight", question_, 0, 1e6, "of the answers to earlier questions, beside lambda; 0: off");
    visitor("attention_weight", attention_, 0, 1e6, "of the attention over them, beside lambda; 0: off");
    visitor("questions", most_, 1, 1000000000, "kept in all, in equal shares of the stages seen");
    visitor("pairing", pairing_,
            "which is asked about a picture: one about its object category or group where the stream knows them, or "
            "any");
    visitor("layers", layers_, 1, 1000, "last layers whose attention is held; at most as many as there are");
    visitor("answer_tokens", answer_tokens_, 1, 1000, "longest answer of the teacher; with head: generate");
  }

  std::vector<Assignment> native() const override {
    return {{"learning_rate", "1e-4", ""},
            {"weight_decay", "0", ""},
            {"num_train_epochs", "3", ""},
            {"per_device_train_batch_size", "80", ""}};
  }

  void prepare(Backbone& model, const Options&) override {
    depth_ = 0;
    for (const auto& site : model.all_sites())
      if (site.part == SitePart::down) depth_ = std::max(depth_, site.layer + 1);
  }

  void plan(const PhasePlan& stage, std::vector<Phase>&) const override { teacher_.check_possible(stage); }

  void begin_stage(StageContext&) override { steps_ = 0; }

  void before_stage(StageContext& stage) override {
    check(stage.stage == 1 || !questions_.all().empty(), "quad: there is no question of an earlier stage to ask in ",
          "stage ", stage.stage);
    data_ = &stage.data;
    key_ = Random({stage.seed, 0x90ad, static_cast<uint64_t>(stage.stage)}).next();
  }

  void add_losses(StepContext& step) override {
    if (lambda_ * (question_ + attention_) == 0 || !teacher_.there(step.bank)) return;
    const auto nothing = torch::zeros({}, at::TensorOptions().device(step.model.device()));
    HeldTo answers{nothing, nothing}, attention{nothing, nothing};
    if (!step.rows.empty() && !step.share.positions.empty()) ask(step, answers, attention);
    // Means over the whole batch: what a question makes of answer tokens and rows, each process knows of its own. One
    // that holds replayed samples alone must come here all the same.
    auto counts = torch::tensor({answers.count, attention.count}, at::kDouble);
    step.share.team.sum(counts);
    if (counts.sum().item<double>() == 0) return;  // a batch of another method's
    if (step.output.loss.defined()) step.losses.front().second *= 1 - lambda_;
    if (question_ > 0) add(step, "question", answers, counts[0].item<double>(), question_);
    if (attention_ > 0) add(step, "attention", attention, counts[1].item<double>(), attention_);
  }

  void after_step(GradientContext&) override { ++steps_; }

  void after_stage(StageContext& stage) override {
    questions_.share_out(stage.data, most_, stage.stage, stage.seed);
    teacher_.take(stage);
    steps_ = 0;
  }

  void state(StateVisitor& visitor) override {
    teacher_.state(visitor);
    questions_.state(visitor);
    visitor.number("steps", StateKind::statistics, steps_);
  }
  std::vector<StateShape> kept(const StateSizes&) const override {
    auto out = PreviousAdapter::kept();
    out.push_back({"questions", StateKind::question, {kAnySize}});
    out.push_back({"steps", StateKind::statistics, {1}});
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<double>(run.task_samples.size());
    constexpr double kQuestion = 64;  // bytes
    out.device_bytes = 4 * run.parameters;
    out.host_bytes = kQuestion * std::min(static_cast<double>(most_), run.samples());
    out.checkpoint_bytes = out.device_bytes + out.host_bytes;
    // The teacher's answer, its pass over it, and the model's, forward and backward; not in the first stage.
    out.forward_passes = 5 * (stages - 1) / stages;
    return out;
  }

 private:
  // Earlier questions about this part's pictures, answered by the teacher where answers are text; a task with
  // parameters of its own chooses them, and no answer is in the sequence.
  SampleBatch asked(const StepContext& step, const Pass& teacher) const {
    std::vector<ComposedRow> pairs;
    for (const int64_t row : step.rows) {
      const auto tag = pairing_ == QuestionPairing::category ? picture_tag(data_->info(row)) : std::string();
      const auto key = Random({key_, static_cast<uint64_t>(steps_), static_cast<uint64_t>(row)}).next();
      pairs.push_back({row, row, questions_.draw(tag, key).text});
    }
    auto out = data_->composed(pairs);
    if (!is_written(step.objective)) return out;
    const auto answers = step.objective.answers(step.model, out.input, teacher, answer_tokens_);
    // A teacher without a word is asked how it goes on with the picture's own answer.
    for (size_t i = 0; i < pairs.size(); ++i)
      if (answers[i].find_first_not_of(' ') != std::string::npos) pairs[i].answer = answers[i];
    return data_->composed(pairs);
  }

  // Whichever of both has a weight.
  void ask(const StepContext& step, HeldTo& answers, HeldTo& attention) const {
    const auto teacher = teacher_.pass(step.bank);
    const auto want = wanted(step.objective);
    SampleBatch batch;
    Output old;
    torch::Tensor expected;  // logarithms, [what is answered, choices]
    {
      at::NoGradGuard no_grad;
      batch = asked(step, teacher);
      old = step.model.forward(batch.input, teacher, want);
      if (question_ > 0) expected = step.objective.logits(old, teacher_.head()).log_softmax(-1);
    }
    Pass pass;
    pass.slots = step.bank.training();
    const auto now = step.model.forward(batch.input, pass, want);
    if (question_ > 0) {
      answers = held_to(expected.exp(), expected, step.objective.logits(now).log_softmax(-1));
      answers.count = static_cast<double>(expected.size(0));
    }
    if (attention_ > 0) attention = held_attention(old, now);
  }

  Want wanted(const Objective& objective) const {
    Want out;
    out.loss = false;
    if (question_ > 0) objective.ask_for_logits(out);
    if (attention_ == 0) return out;
    out.tap_layers = std::min(layers_, depth_);
    out.tap_rows = is_written(objective) ? TapRows::text : TapRows::question;
    out.tap_columns = TapColumns::all;
    return out;
  }

  static HeldTo held_attention(const Output& old, const Output& now) {
    // Later tokens and padding, where there is no attention, are masked before the logarithm.
    const auto none = old.attention.eq(0);  // [B, L, heads, T, S]
    const auto logarithm = [&](const torch::Tensor& a) { return a.masked_fill(none, 1).clamp_min(kLeast).log(); };
    auto out = held_to(old.attention, logarithm(old.attention), logarithm(now.attention));
    out.count = old.rows.ge(0).sum().item<double>() * static_cast<double>(old.attention.size(1)) *
                static_cast<double>(old.attention.size(2));
    return out;
  }

  // The divergence stands beside it: the cross-entropy has the teacher's entropy as its floor.
  void add(StepContext& step, const std::string& name, const HeldTo& held, double count, double weight) const {
    step.add(name + "_loss", held.sum / count, lambda_ * weight);
    step.log[name + "_divergence"] = (held.sum.detach() - held.entropy) / count;
  }

  static bool is_written(const Objective& objective) { return objective.parameters().empty(); }

  double lambda_ = 0.5, question_ = 1, attention_ = 1;
  int64_t most_ = 5000, layers_ = 4, answer_tokens_ = 10;
  QuestionPairing pairing_ = QuestionPairing::category;

  PreviousAdapter teacher_{"quad"};
  KeptQuestions questions_;
  int64_t steps_ = 0;                // of the stage
  int64_t depth_ = 0;                // of the language model
  const SampleSet* data_ = nullptr;  // of the stage
  uint64_t key_ = 0;                 // of the stage's draws
};

}  // namespace

std::unique_ptr<Method> make_quad_method() {
  return std::make_unique<Quad>();
}

}  // namespace asr
