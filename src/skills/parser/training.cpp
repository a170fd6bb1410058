#include "skills/parser/training.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "nn/adamw.h"
#include "skills/taxonomy.h"

namespace asr {
namespace {

using Ids = std::vector<int64_t>;

// A dropped word becomes any unknown word; its own bucket would give it away.
Ids with_dropped_words(const Vocabulary& vocabulary, Ids ids, double probability, Random& random) {
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

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels, double smoothing) {
  const auto log_p = logits.log_softmax(-1);
  const auto hit = log_p.gather(1, labels.unsqueeze(1)).mean();
  return -((1 - smoothing) * hit + smoothing * log_p.mean());
}

void fit_held_out(SkillParser& parser, const std::vector<LabelledQuestion>& held_out, uint64_t seed) {
  if (held_out.empty()) return;
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> logits;
  std::vector<int64_t> labels;
  const auto& o = parser.options();
  Random random({seed, 2});
  for (size_t i = 0; i < held_out.size(); i += 64) {
    std::vector<Ids> some;
    for (size_t j = i; j < std::min(held_out.size(), i + 64); ++j) {
      const auto ids = parser.vocabulary().ids(held_out[j].text, o.max_words);
      some.push_back(ids), some.push_back(with_dropped_words(parser.vocabulary(), ids, o.word_dropout, random));
      labels.insert(labels.end(), 2, held_out[j].skill);
    }
    logits.push_back(parser.logits(some));
  }
  parser.temperature = fit_temperature(at::cat(logits, 0), torch::tensor(labels));
}

}  // namespace

SkillParser train_parser(const std::vector<LabelledQuestion>& train, const std::vector<LabelledQuestion>& held_out,
                         const ParserOptions& options, uint64_t seed, const WatchTraining& watch) {
  check(!train.empty(), "there are no questions to train on");
  auto vocabulary = Vocabulary::build(texts(train), options.min_count, options.max_vocabulary, options.buckets);
  auto parser = SkillParser::random(options, std::move(vocabulary), seed);
  std::vector<Ids> numbered;
  for (const auto& question : train) numbered.push_back(parser.vocabulary().ids(question.text, options.max_words));
  std::vector<torch::Tensor> weights;
  for (auto& [name, weight] : parser.named_weights()) weights.push_back(weight.requires_grad_());
  AdamWOptions adamw;
  adamw.weight_decay = options.weight_decay;
  AdamW optimizer(weights, adamw);
  for (int64_t step = 0; step < options.steps; ++step) {
    Random random({seed, 1, static_cast<uint64_t>(step)});
    std::vector<Ids> batch;
    std::vector<int64_t> labels;
    for (int64_t b = 0; b < options.batch; ++b) {
      const size_t i = random.below(static_cast<uint32_t>(train.size()));
      batch.push_back(with_dropped_words(parser.vocabulary(), numbered[i], options.word_dropout, random));
      labels.push_back(train[i].skill);
    }
    optimizer.zero_grad();
    const auto loss = cross_entropy(parser.logits(batch), torch::tensor(labels), options.label_smoothing);
    loss.backward();
    const double value = loss.item<double>();
    check(std::isfinite(value), "the parser's loss is ", value, " at step ", step, "; lower parser.learning_rate");
    optimizer.clip(1.0);
    optimizer.step(cosine_rate(options.learning_rate, step, options.steps, std::min<int64_t>(50, options.steps / 10)));
    if (watch) watch(step, value);
  }
  parser.replace_weights(weights);
  fit_held_out(parser, held_out, seed);
  return parser;
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
    if (at_a < at_b)
      high = b, b = a, at_b = at_a, a = high - ratio * (high - low), at_a = loss(a);
    else
      low = a, a = b, at_a = at_b, b = low + ratio * (high - low), at_b = loss(b);
  }
  return std::exp((low + high) / 2);
}

ParserReport evaluate_posterior(const torch::Tensor& posterior, const std::vector<int>& labels) {
  constexpr int kBins = 15;
  const int64_t count = posterior.size(0), S = posterior.size(1);
  check(count > 0 && count == static_cast<int64_t>(labels.size()), "there are ", count, " posteriors for ",
        labels.size(), " labels");
  const auto p = posterior.to(at::kDouble).contiguous();
  ParserReport out;
  out.count = count;
  out.skills.resize(static_cast<size_t>(S));
  std::vector<std::vector<int64_t>> pairs(S, std::vector<int64_t>(S));
  double gap[kBins] = {};  // sum of correctness minus confidence
  for (int64_t i = 0; i < count; ++i) {
    const double* row = p.data_ptr<double>() + i * S;
    const auto answer = static_cast<int>(std::max_element(row, row + S) - row);
    const bool right = answer == labels[i];
    out.log_likelihood += std::log(std::max(row[labels[i]], 1e-300)) / static_cast<double>(count);
    out.confidence += row[answer] / static_cast<double>(count);
    gap[std::min(kBins - 1, static_cast<int>(row[answer] * kBins))] += (right ? 1 : 0) - row[answer];
    ++out.skills[labels[i]].count, ++out.skills[answer].predicted, out.skills[answer].correct += right;
    ++pairs[labels[i]][answer];
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
  std::vector<int> labels;
  for (const auto& question : questions) labels.push_back(question.skill);
  return evaluate_posterior(parser.posterior(texts(questions)), labels);
}

}  // namespace asr
