#include "train/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/checksums.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/encoded_samples.h"
#include "data/packed_samples.h"
#include "io/word_tokenizer.h"
#include "metrics/vqa_answer.h"
#include "skills/functional_tokens.h"
#include "skills/parser/parser.h"
#include "skills/part_of_speech.h"
#include "skills/taxonomy.h"
#include "streams/manifest.h"
#include "tensor/numeric_kernels.h"
#include "tensor/runtime.h"

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
  for (const auto& text : set.infos()) {
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

KeptSamples::KeptSamples(const std::string& folder, const nlohmann::json& content, const Backbone& model)
    : cache_(folder),
      pictures_from_(cat("pictures 1:", content.at("pictures").dump(), ":", model.image_size())),
      features_from_(cat("features 1:", pictures_from_, ":", content.at("model").dump(), ":", numeric_kernels_text(),
                         ":", runtime_info().torch_version, ":", runtime_info().threads)),
      keeps_features_(model.device().is_cpu()) {}

torch::Tensor KeptSamples::pictures(const std::string& samples) const {
  return cache_.find(name_of(pictures_from_, samples));
}

torch::Tensor KeptSamples::features(const std::string& samples) const {
  return keeps_features_ ? cache_.find(name_of(features_from_, samples)) : torch::Tensor();
}

void KeptSamples::keep_pictures(const std::string& samples, const torch::Tensor& pictures) const {
  cache_.keep(name_of(pictures_from_, samples), pictures);
}

void KeptSamples::keep_features(const std::string& samples, const torch::Tensor& features) const {
  if (keeps_features_ && features.defined()) cache_.keep(name_of(features_from_, samples), features);
}

std::string KeptSamples::name_of(const std::string& from, const std::string& samples) {
  return sha256_of(from + "\n" + samples).substr(0, 32);
}

// A word is several tokens of a large vocabulary.
constexpr int64_t kPiecesAWord = 4;

std::shared_ptr<SampleSet> Data::read(size_t task, DataSplit split) {
  const int64_t count = stream_.size(task, split);
  const auto text = [this, task, split](int64_t i) { return stream_.text(task, split, i); };
  const auto file = [this, task, split](int64_t i) { return stream_.picture_file(task, split, i); };
  const auto picture = [this, task, split](int64_t i) {
    auto s = stream_.sample(task, split, i);
    return Image8{s.height, s.width, std::move(s.pixels)};
  };
  const auto& about = stream_.tasks()[task];
  const auto finish = [&](SampleSet& set, int64_t pieces) {
    set.name = cat(printable(about.name), " (", split_name(split), ")");
    set.prompt = about.prompt;
    set.answer_tokens = about.answer_tokens * pieces;
    if (split == DataSplit::train)
      for (const auto& phase : stream_.phases(task)) set.set_group(phase.rows, phase.name);
    report_coverage(set, model_, about.name, split == DataSplit::train ? "train" : "val");
  };
  if (model_.image_size() == 0) {
    auto set = packed_samples(count, text, {picture, file}, model_, &analyser_);
    finish(*set, kPiecesAWord);
    set->posterior = question_posteriors(set->infos(), analyser_, &team_).to(model_.device());
    return set;
  }
  const auto samples = cat(stream_.fingerprint(), "/", task, "/", split_name(split));
  auto set = read_encoded(task, split, samples);
  set->file = file;
  finish(*set, 1);
  if (kept_) add_features(samples, *set);
  return set;
}

std::shared_ptr<EncodedSamples> Data::read_encoded(size_t task, DataSplit split, const std::string& samples) {
  SampleSource source{stream_.size(task, split),
                      [this, task, split](int64_t i) { return stream_.sample(task, split, i); }};
  if (kept_) source.pixels = kept_->pictures(samples);
  const bool known = source.pixels.defined();
  if (known) source.sample = [this, task, split](int64_t i) { return stream_.text(task, split, i); };
  auto set = std::make_shared<EncodedSamples>(encode_samples(source, model_, &analyser_, &team_));
  if (kept_ && !known) kept_->keep_pictures(samples, set->all_pixels());
  return set;
}

void Data::add_features(const std::string& samples, EncodedSamples& set) {
  const auto features = kept_->features(samples);
  if (features.defined()) return set.take_features(features);
  set.keep_features(team_);
  kept_->keep_features(samples, set.all_features());
}

const std::set<std::string>& Data::answers(size_t task) {
  const auto [place, added] = answers_.try_emplace(task);
  if (added)
    for (int64_t i = 0; i < stream_.size(task, DataSplit::train); ++i)
      place->second.insert(normalized_answer(stream_.text(task, DataSplit::train, i).answer));
  return place->second;
}

const SampleSet& Data::get(size_t task, DataSplit split, bool reference) {
  auto& set = sets_[{task, split}];
  if (!set) set = read(task, split);
  set->keep_features(team_);
  if (reference && !set->reference_image.defined()) cache_reference(*set, model_, team_);
  return *set;
}

const SampleSet& Data::get_of_stage(size_t task, DataSplit split, int stage) {
  get(task, split);
  auto& set = *sets_.at({task, split});
  set.set_stage(stage);
  return set;
}

}  // namespace asr
