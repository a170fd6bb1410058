#include "skills/parser/training.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/random.h"
#include "nn/adamw.h"
#include "skills/taxonomy.h"

namespace asr {
namespace {

using Ids = std::vector<int64_t>;

// A dropped word becomes any unknown word; its own bucket would give it away.
Ids with_dropped_words(const QuestionVocabulary& vocabulary, Ids ids, double probability, Random& random) {
  const auto buckets = static_cast<uint32_t>(vocabulary.size() - vocabulary.first_bucket());
  for (size_t i = 1; i < ids.size(); ++i)
    if (random.chance(probability)) ids[i] = vocabulary.first_bucket() + random.below(buckets);
  return ids;
}

std::vector<std::string> texts(const std::vector<LabelledQuestion>& questions) {
  std::vector<std::string> out;
  for (const auto& question : questions) out.push_back(question.text);
  return out;
}

// Labels [N] or distributions [N, S].
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels, double smoothing) {
  const auto log_p = logits.log_softmax(-1);
  const auto hit = labels.dim() == 2 ? (log_p * labels).sum(-1).mean() : log_p.gather(1, labels.unsqueeze(1)).mean();
  return -((1 - smoothing) * hit + smoothing * log_p.mean());
}

bool has_targets(const std::vector<LabelledQuestion>& questions) {
  return std::any_of(questions.begin(), questions.end(), [](const auto& q) { return !q.target.empty(); });
}

// Labels of the chosen questions: numbers, or distributions if any question of the set has one.
class Labels {
 public:
  explicit Labels(const std::vector<LabelledQuestion>& questions)
      : questions_(questions), soft_(has_targets(questions)) {}

  void add(size_t i) {
    const auto& question = questions_[i];
    hard_list_.push_back(question.skill);
    if (!soft_) return;
    const size_t begin = soft_list_.size();
    soft_list_.resize(begin + skill_names().size());
    if (question.target.empty()) soft_list_[begin + static_cast<size_t>(question.skill)] = 1;
    std::copy(question.target.begin(), question.target.end(), soft_list_.begin() + static_cast<int64_t>(begin));
  }
  torch::Tensor take() {
    const auto out = soft_ ? torch::tensor(soft_list_).view({-1, static_cast<int64_t>(skill_names().size())})
                           : torch::tensor(hard_list_);
    hard_list_.clear();
    soft_list_.clear();
    return out;
  }

 private:
  const std::vector<LabelledQuestion>& questions_;
  bool soft_;
  std::vector<int64_t> hard_list_;
  std::vector<float> soft_list_;
};

void fit_held_out(SkillParser& parser, const std::vector<LabelledQuestion>& held_out, uint64_t seed) {
  if (held_out.empty()) return;
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> logits;
  Labels labels(held_out);
  const auto& o = parser.options();
  Random random({seed, 2});
  for (size_t i = 0; i < held_out.size(); i += 64) {
    std::vector<Ids> some;
    for (size_t j = i; j < std::min(held_out.size(), i + 64); ++j) {
      const auto ids = parser.vocabulary().ids(held_out[j].text, o.max_words);
      some.push_back(ids);
      some.push_back(with_dropped_words(parser.vocabulary(), ids, o.word_dropout, random));
      labels.add(j);
      labels.add(j);
    }
    logits.push_back(parser.logits(some).to(at::kCPU));
  }
  parser.temperature = fit_temperature(at::cat(logits, 0), labels.take());
}

// Which question comes next: one drawn at random, or the next of the epoch's order.
class Order {
 public:
  Order(size_t questions, const ParserOptions& options, uint64_t seed)
      : count_(questions), options_(options), seed_(seed), order_(questions) {
    for (size_t i = 0; i < questions; ++i) order_[i] = i;
  }

  size_t next(Random& random) {
    if (options_.epochs <= 0) return random.below(static_cast<uint32_t>(count_));
    if (taken_ % count_ == 0) Random({seed_, 3, taken_ / count_}).shuffle(order_);
    return order_[taken_++ % count_];
  }

 private:
  size_t count_;
  const ParserOptions& options_;
  uint64_t seed_, taken_ = 0;
  std::vector<size_t> order_;
};

}  // namespace

int64_t training_steps(const ParserOptions& options, size_t questions) {
  if (options.epochs <= 0) return options.steps;
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(options.epochs * static_cast<double>(questions) /
                                                             static_cast<double>(options.batch))));
}

SkillParser train_parser(const std::vector<LabelledQuestion>& train, const std::vector<LabelledQuestion>& held_out,
                         const ParserOptions& options, const ParserTraining& how) {
  check(!train.empty(), "there are no questions to train on");
  auto vocabulary = QuestionVocabulary::build(texts(train), options.min_count, options.max_vocabulary, options.buckets);
  auto parser = SkillParser::random(options, std::move(vocabulary), how.seed);
  parser.to(how.device);
  std::vector<Ids> numbered;
  for (const auto& question : train) numbered.push_back(parser.vocabulary().ids(question.text, options.max_words));
  std::vector<torch::Tensor> weights;
  for (auto& [name, weight] : parser.named_weights()) weights.push_back(weight.requires_grad_());
  AdamWOptions adamw;
  adamw.weight_decay = options.weight_decay;
  AdamW optimizer(weights, adamw);
  Order order(train.size(), options, how.seed);
  Labels labels(train);
  const int64_t steps = training_steps(options, train.size()), look = how.device.is_cuda() ? 50 : 1;
  double value = 0;
  for (int64_t step = 0; step < steps; ++step) {
    Random random({how.seed, 1, static_cast<uint64_t>(step)});
    std::vector<Ids> batch;
    for (int64_t b = 0; b < options.batch; ++b) {
      const size_t i = order.next(random);
      batch.push_back(with_dropped_words(parser.vocabulary(), numbered[i], options.word_dropout, random));
      labels.add(i);
    }
    optimizer.zero_grad();
    const auto loss = cross_entropy(parser.logits(batch), labels.take().to(how.device), options.label_smoothing);
    loss.backward();
    if (step % look == 0) value = loss.item<double>();
    check(std::isfinite(value), "the parser's loss is ", value, " at step ", step, "; lower parser.learning_rate");
    optimizer.clip(1.0);
    optimizer.step(cosine_rate(options.learning_rate, step, steps, std::min<int64_t>(50, steps / 10)));
    if (how.watch) how.watch(step, value);
    if (interrupted(StopPlace::step)) break;
  }
  parser.replace_weights(weights);
  parser.to(how.device);
  fit_held_out(parser, held_out, how.seed);
  parser.to(at::kCPU);
  return parser;
}

void set_targets(std::vector<LabelledQuestion>& questions, const SkillParser& teacher) {
  constexpr size_t kBlock = 512;
  Progress progress("ask the teacher", static_cast<int64_t>(questions.size()), Progress::Ends::unseen);
  for (size_t begin = 0; begin < questions.size(); begin += kBlock) {
    const size_t end = std::min(questions.size(), begin + kBlock);
    const auto place = questions.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<LabelledQuestion> block(place, place + static_cast<std::ptrdiff_t>(end - begin));
    const auto posterior = teacher.posterior(texts(block), kBlock);
    const int64_t S = posterior.size(1);
    for (size_t i = begin; i < end; ++i) {
      const float* row = posterior.data_ptr<float>() + static_cast<int64_t>(i - begin) * S;
      questions[i].target.assign(row, row + S);
    }
    progress.advance(static_cast<int64_t>(end - begin));
    stop_if_interrupted("while the teacher was asked; nothing was written");
  }
  progress.finish();
}

double fit_temperature(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto wide = logits.detach().to(at::kDouble);
  const auto loss = [&](double log_temperature) {
    return cross_entropy(wide / std::exp(log_temperature), labels, 0).item<double>();
  };
  // Golden section: the loss is convex in 1/T, so it has one minimum in log T.
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double low = std::log(0.05), high = std::log(20.0);
  double a = high - ratio * (high - low), b = low + ratio * (high - low), at_a = loss(a), at_b = loss(b);
  while (high - low > 1e-5) {
    if (at_a < at_b) {
      high = b;
      b = a;
      at_b = at_a;
      a = high - ratio * (high - low);
      at_a = loss(a);
    } else {
      low = a;
      a = b;
      at_a = at_b;
      b = low + ratio * (high - low);
      at_b = loss(b);
    }
  }
  return std::exp((low + high) / 2);
}

ParserReport evaluate_posterior(const torch::Tensor& posterior, const std::vector<LabelledQuestion>& questions) {
  constexpr int kBins = 15;
  const int64_t count = posterior.size(0), S = posterior.size(1);
  check(count > 0 && count == static_cast<int64_t>(questions.size()), "there are ", count, " posteriors for ",
        questions.size(), " questions");
  const auto p = posterior.to(at::kDouble).contiguous();
  ParserReport out;
  out.count = count;
  out.skills.resize(static_cast<size_t>(S));
  std::vector<std::vector<int64_t>> pairs(S, std::vector<int64_t>(S));
  double gap[kBins] = {};  // sum of correctness minus confidence, by confidence
  for (int64_t i = 0; i < count; ++i) {
    const double* row = p.data_ptr<double>() + i * S;
    const auto answer = static_cast<int>(std::max_element(row, row + S) - row);
    const auto& question = questions[static_cast<size_t>(i)];
    const int label = question.skill;
    const bool right = answer == label;
    const double share = question.target.empty() ? (right ? 1 : 0) : question.target[static_cast<size_t>(answer)];
    out.log_likelihood += std::log(std::max(row[label], 1e-300)) / static_cast<double>(count);
    out.confidence += row[answer] / static_cast<double>(count);
    gap[std::min(kBins - 1, static_cast<int>(row[answer] * kBins))] += share - row[answer];
    ++out.skills[label].count;
    ++out.skills[answer].predicted;
    out.skills[answer].correct += right;
    ++pairs[label][answer];
  }
  for (double g : gap) out.calibration_error += std::abs(g) / static_cast<double>(count);
  int64_t right = 0;
  for (int a = 0; a < S; ++a) {
    right += pairs[a][a];
    for (int b = 0; b < S; ++b)
      if (a != b && pairs[a][b] > 0) out.confusions.push_back({a, b, pairs[a][b]});
  }
  out.accuracy = static_cast<double>(right) / static_cast<double>(count);
  std::stable_sort(out.confusions.begin(), out.confusions.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  return out;
}

ParserReport evaluate_parser(const SkillParser& parser, const std::vector<LabelledQuestion>& questions) {
  return evaluate_posterior(parser.posterior(texts(questions)), questions);
}

}  // namespace asr
