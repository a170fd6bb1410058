#include "data/sample_set.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/walk.h"

namespace asr {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out(static_cast<size_t>(std::max<int64_t>(0, end - begin)));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

SampleInfo info_of(StreamSample&& sample) {
  check(!sample.question.empty(), sample.id, ": the question is empty");
  check(!sample.answer.empty(), sample.id, ": the answer is empty");
  SampleInfo out;
  out.id = std::move(sample.id);
  out.question = std::move(sample.question);
  out.answer = std::move(sample.answer);
  out.skill = std::move(sample.skill);
  out.references = std::move(sample.references);
  out.type = std::move(sample.type);
  out.part = std::move(sample.part);
  out.category = std::move(sample.category);
  out.has_picture = sample.has_picture;
  return out;
}

SampleBatch SampleSet::training_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  SampleBatch batch;
  batch.input = input_rows(index, augment);
  const auto rows = torch::tensor(index, at::kLong);
  const auto pick = [&](const torch::Tensor& t) {  // the index goes up without waiting for a GPU
    if (!t.defined()) return t;
    return t.index_select(0, rows.to(t.device(), /*non_blocking=*/true)).to(batch.input.ids.device());
  };
  batch.posterior = pick(posterior);
  batch.reference_image = pick(reference_image);
  batch.reference_text = pick(reference_text);
  for (const int64_t i : index) batch.info.push_back(info(i));
  batch.augmentation = augment;
  batch.pixels = pixels_of(index);
  batch.pictures = pictures_of(index);
  return batch;
}

std::string SampleSet::picture_key(int64_t i) const {
  const auto file = picture_file(i);
  if (!file.path.empty()) return cat(file.path, "#", file.frames);
  return info(i).id + "\n" + info(i).question;  // ids of different tasks may be equal
}

Image8 SampleSet::composed_picture(const ComposedRow& row) const {
  if (row.picture != kBlankPicture) return picture(row.picture);
  auto out = picture(row.text);
  std::fill(out.rgb.begin(), out.rgb.end(), uint8_t(0));
  return out;
}

BatchPictures SampleSet::pictures_of(const std::vector<int64_t>& index) const {
  BatchPictures out;
  out.key = [this, index](int64_t row) { return picture_key(index[static_cast<size_t>(row)]); };
  out.read = [this, index](int64_t row) { return picture(index[static_cast<size_t>(row)]); };
  return out;
}

SampleBatch SampleSet::composed(const std::vector<ComposedRow>& rows) const {
  SampleBatch batch;
  std::vector<torch::Tensor> posteriors;
  for (const auto& row : rows) {
    check(row.text >= 0 && row.text < size() && row.picture >= kBlankPicture && row.picture < size(),
          "there is no row (picture ", row.picture, ", text ", row.text, ") in ", size(), " samples of ", name);
    auto text = info(row.text);
    if (row.question) text.question = *row.question;
    if (row.answer) {
      text.answer = *row.answer;
      text.references = {*row.answer};
    }
    check(!text.question.empty() && !text.answer.empty(), text.id, ": a rewritten question or answer is empty");
    const bool asked_anew = row.question && *row.question != info(row.text).question;
    if (posterior.defined() && asked_anew && analyser_)
      posteriors.push_back(analyser_->posterior({text.question}, {text.skill}).to(posterior.device()));
    else if (posterior.defined())
      posteriors.push_back(posterior.narrow(0, row.text, 1));
    batch.info.push_back(std::move(text));
  }
  batch.input = composed_input(rows, batch.info);
  batch.pictures.key = [this, rows](int64_t at) {
    const auto& row = rows[static_cast<size_t>(at)];
    return row.picture == kBlankPicture ? "black, like " + picture_key(row.text) : picture_key(row.picture);
  };
  batch.pictures.read = [this, rows](int64_t at) { return composed_picture(rows[static_cast<size_t>(at)]); };
  if (!posteriors.empty()) batch.posterior = at::cat(posteriors).to(batch.input.ids.device());
  return batch;
}

void SampleSet::set_group(const std::vector<int64_t>& index, const std::string& group) {
  for (const int64_t i : index) info_.at(static_cast<size_t>(i)).group = group;
}

void SampleSet::set_stage(int stage) {
  for (auto& info : info_) info.stage = stage;
}

void SampleSet::take_settings(const SampleSet& other) {
  name = other.name;
  answer_tokens = other.answer_tokens;
  prompt = other.prompt;
}

void SampleSet::take_rows(const SampleSet& other, const std::vector<int64_t>& index) {
  take_settings(other);
  for (const int64_t i : index) info_.push_back(other.info(i));
  if (!other.posterior.defined()) return;
  posterior = other.posterior.index_select(0, torch::tensor(index, at::kLong).to(other.posterior.device()));
}

void SampleSet::take_union(const std::vector<const SampleSet*>& sets) {
  take_settings(*sets[0]);
  std::vector<torch::Tensor> posteriors;
  for (const auto* set : sets) {
    info_.insert(info_.end(), set->info_.begin(), set->info_.end());
    answer_tokens = std::max(answer_tokens, set->answer_tokens);
    if (set->posterior.defined()) posteriors.push_back(set->posterior);
  }
  if (posteriors.size() == sets.size()) posterior = at::cat(posteriors);
}

std::shared_ptr<SampleSet> concatenate(const std::vector<const SampleSet*>& sets) {
  check(!sets.empty(), "a union of no samples");
  return sets[0]->joined(sets);
}

torch::Tensor question_posteriors(const std::vector<SampleInfo>& info, const QuestionAnalyser& analyser,
                                  const Team* team) {
  const auto count = static_cast<int64_t>(info.size());
  std::vector<torch::Tensor> parts;
  const auto ask = [&](Part rows, Part) {
    std::vector<std::string> questions, skills;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      questions.push_back(info[static_cast<size_t>(i)].question);
      skills.push_back(info[static_cast<size_t>(i)].skill);
    }
    parts.push_back(analyser.posterior(questions, skills));
  };
  constexpr int64_t kBlock = 4096;  // whole batches of the parser, so that blocks change no bit
  if (team)
    each_block({"skills of questions", count, kBlock, false}, *team, ask);
  else
    ask({0, count}, {});
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

void cache_reference(SampleSet& set, const Backbone& model, const Team& team) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.pooled = true;
  std::vector<torch::Tensor> image, text;
  each_block({cat("reference embeddings of ", set.name), set.size(), set.pass_samples()}, team, [&](Part rows, Part) {
    const auto out = model.forward(set.rows(range(rows.begin, rows.end)).input, Pass{0, nullptr}, want);
    image.push_back(out.image);
    text.push_back(out.text);
  });
  const auto all = [&](const std::vector<torch::Tensor>& blocks) {
    const auto no_rows = at::empty({0}, at::device(model.device()).dtype(at::kFloat));
    return team.gather(blocks.empty() ? no_rows : at::cat(blocks)).to(set.embedding_device());
  };
  set.reference_image = all(image);
  set.reference_text = all(text);
}

void add_reference(SampleBatch& batch, const Backbone& model) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.pooled = true;
  const auto base = model.forward(batch.input, Pass{0, nullptr}, want);
  batch.reference_image = base.image;
  batch.reference_text = base.text;
}

}  // namespace asr
