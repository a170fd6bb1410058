#include "train/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "io/word_tokenizer.h"
#include "skills/functional_tokens.h"
#include "skills/parser/parser.h"
#include "skills/part_of_speech.h"
#include "skills/taxonomy.h"
#include "streams/manifest.h"

namespace asr {
namespace {

class Analyser final : public QuestionAnalyser {
 public:
  Analyser(std::optional<SkillParser> parser, SkillMode mode) : parser_(std::move(parser)), mode_(mode) {}

  std::vector<bool> functional(const std::string& question, const std::vector<Token>& tokens) const override {
    std::vector<std::pair<size_t, size_t>> offsets;
    for (const auto& token : tokens) offsets.emplace_back(token.begin, token.end);
    return functional_tokens(question, offsets, question_lexicon());
  }

  torch::Tensor posterior(const std::vector<std::string>& questions,
                          const std::vector<std::string>& true_skills) const override {
    if (parser_) return parser_->posterior(questions);
    if (mode_ == SkillMode::rule) return rule_posteriors(questions);
    std::vector<int64_t> labels;
    for (const auto& skill : true_skills) {
      check(!skill.empty(), "asr.skill=oracle: the stream does not know the skill of every question");
      labels.push_back(skill_index(skill));
    }
    return at::one_hot(torch::tensor(labels, at::kLong), static_cast<int64_t>(skill_names().size())).to(at::kFloat);
  }

 private:
  std::optional<SkillParser> parser_;
  SkillMode mode_;
};

// A built-in tokenizer knows ASCII alone, and an answer may be longer than what is generated: such answers can be
// trained on but never given. Said once a task and split, where there are any.
void report_coverage(const SampleSet& set, const Backbone& model, const std::string& task, const char* split) {
  int64_t good = 0;
  for (const auto& text : set.texts) {
    const auto tokens = model.tokenizer().encode(text.answer);
    const bool known = model.image_size() == 0 ||  // sub-words can write anything
                       std::none_of(tokens.begin(), tokens.end(),
                                    [](const Token& token) { return token.id == WordTokenizer::kUnknown; });
    good += known && static_cast<int64_t>(tokens.size()) < set.answer_tokens;
  }
  if (good == set.size()) return;
  log_warn(fmt::format("task {}, {}: {:.1f} % of {} answers can be expressed by {} in {} tokens", task, split,
                       100.0 * static_cast<double>(good) / static_cast<double>(set.size()), set.size(), model.name(),
                       set.answer_tokens));
}

}  // namespace

bool reads_parser(SkillMode mode) {
  return mode != SkillMode::oracle && mode != SkillMode::rule;
}

std::unique_ptr<QuestionAnalyser> make_analyser(const std::string& parser, SkillMode mode) {
  if (!reads_parser(mode)) return std::make_unique<Analyser>(std::nullopt, mode);
  return std::make_unique<Analyser>(SkillParser::load(parser), mode);
}

const SampleSet& Data::get(size_t task, DataSplit split, bool reference) {
  const std::pair<size_t, DataSplit> key(task, split);
  auto place = sets_.find(key);
  if (place == sets_.end()) {
    const auto sample = [this, task, split](int64_t i) { return stream_.sample(task, split, i); };
    const bool packed = model_.image_size() == 0;
    auto set = packed ? packed_samples(
                            stream_.size(task, split), [&](int64_t i) { return stream_.text(task, split, i); },
                            [sample](int64_t i) {
                              auto s = sample(i);
                              return Image8{s.height, s.width, std::move(s.pixels)};
                            },
                            model_, &analyser_)
                      : encode_samples(stream_.size(task, split), sample, model_, &analyser_, &team_);
    set.name = cat(printable(stream_.tasks()[task].name), " (", split_name(split), ")");
    // A word is several tokens of a large vocabulary.
    set.prompt = stream_.tasks()[task].prompt;
    set.answer_tokens = stream_.tasks()[task].answer_tokens * (packed ? 4 : 1);
    report_coverage(set, model_, stream_.tasks()[task].name, split == DataSplit::train ? "train" : "val");
    if (packed) set.posterior = question_posteriors(set.texts, analyser_, &team_).to(model_.device());
    place = sets_.emplace(key, std::move(set)).first;
  }
  if (model_.image_size() > 0 && model_.vision_adapted())
    place->second.features = torch::Tensor();  // each step sees the pictures otherwise
  else if (model_.image_size() > 0 && !place->second.features.defined())
    cache_features(place->second, model_, team_);
  if (reference && !place->second.reference_image.defined()) cache_reference(place->second, model_, team_);
  return place->second;
}

}  // namespace asr
