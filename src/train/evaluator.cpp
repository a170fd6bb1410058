#include "train/evaluator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/drawn_rows.h"
#include "data/walk.h"
#include "io/analysis_file.h"
#include "metrics/metric.h"
#include "skills/functional_tokens.h"
#include "skills/part_of_speech.h"
#include "skills/taxonomy.h"
#include "tensor/tensor_io.h"

namespace asr {
TaskScore evaluate_task(const Answerer& who, const SampleSet& set, const std::string& metric, int64_t batch,
                        const Team& team) {
  auto answers = answer_rows(who, set, batch, team);
  TaskScore out;
  out.texts = std::move(answers.texts);
  out.slots = std::move(answers.slots);
  out.why = std::move(answers.why);
  std::vector<Answered> answered;
  for (size_t i = 0; i < out.texts.size(); ++i)
    answered.push_back({set.infos()[i].id, out.texts[i], set.infos()[i].references, set.infos()[i].type});
  auto result = evaluate_metric(metric, answered);
  out.score = result.score;
  out.per_sample = std::move(result.per_sample);
  return out;
}

std::string predictions_text(const SampleSet& set, const TaskScore& score) {
  std::string lines;
  for (size_t i = 0; i < score.texts.size(); ++i) {
    const auto& text = set.infos()[i];
    nlohmann::json line = {{"question_id", text.id},       {"text", score.texts[i]}, {"answer", text.answer},
                           {"score", score.per_sample[i]}, {"skill", text.skill},    {"question", text.question}};
    if (text.references.size() > 1) line["references"] = text.references;
    if (!text.type.empty()) line["type"] = text.type;
    if (!text.part.empty()) line["part"] = text.part;
    if (i < score.slots.size()) line["slot"] = score.slots[i];
    if (i < score.why.size() && !score.why[i].empty()) line["slots"] = nlohmann::json::parse(score.why[i]);
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return lines;
}

namespace {

// All measured samples of all tasks below each other.
struct Pooled {
  Measured m;
  std::vector<int64_t> skill, task;
  std::vector<double> correct;
};

torch::Tensor stacked(const std::vector<Measured>& parts, torch::Tensor Measured::*field) {
  std::vector<torch::Tensor> rows;
  for (const auto& part : parts) rows.push_back(part.*field);
  return at::cat(rows);
}

Pooled measure_all(const Answerer& who, const std::vector<AnalysedTask>& tasks, const AnalysisPlan& plan,
                   const Team& team) {
  const Spectrometer with{who.model, who.pass, plan.memory.options, plan.tap_layers, plan.heads};
  std::vector<Measured> parts;
  Pooled out;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const auto rows = analysed_rows(tasks[t].name, tasks[t].set->size(), plan.samples);
    parts.push_back(measure_spectra(with, *tasks[t].set, rows, team));
    const auto best = parts.back().posterior.argmax(1);
    for (size_t i = 0; i < rows.size(); ++i) {
      out.skill.push_back(best[static_cast<int64_t>(i)].item<int64_t>());
      out.task.push_back(static_cast<int64_t>(t));
      out.correct.push_back(tasks[t].score->per_sample[static_cast<size_t>(rows[i])]);
    }
  }
  for (auto field : {&Measured::descriptor, &Measured::radial, &Measured::angular, &Measured::map, &Measured::entropy,
                     &Measured::embedding, &Measured::posterior})
    out.m.*field = stacked(parts, field);
  if (plan.heads) out.m.heads = stacked(parts, &Measured::heads);
  return out;
}

// Squared distance of each sample to the prototype of its skill, over the dimensions; NaN where there is none.
std::vector<double> distances(const Pooled& pooled, const PrototypeMemory& memory) {
  std::map<int64_t, const Prototype*> known;
  if (memory.options.asr.prototypes == Prototypes::skill || memory.options.asr.prototypes == Prototypes::mean)
    for (const auto& p : memory.prototypes) known[p.skill] = &p;
  const auto d = pooled.m.descriptor.to(at::kDouble).contiguous();
  std::vector<double> out;
  for (size_t i = 0; i < pooled.skill.size(); ++i) {
    const auto place = known.find(pooled.skill[i]);
    if (place == known.end() || place->second->mean.empty()) {
      out.push_back(NAN);
      continue;
    }
    const double* phi = d.data_ptr<double>() + static_cast<int64_t>(i) * d.size(1);
    double sum = 0;
    for (size_t k = 0; k < place->second->mean.size(); ++k) {
      const double gap = phi[k] - place->second->mean[k];
      sum += gap * gap / std::max(place->second->variance[k], memory.options.spectral.covariance_floor);
    }
    out.push_back(sum / static_cast<double>(d.size(1)));
  }
  return out;
}

nlohmann::json functional_list(const std::string& question) {
  auto out = nlohmann::json::array();
  for (const auto& word : functional_words(question, question_lexicon()))
    if (word.functional) out.push_back(word.text);
  return out;
}

// A picture as the report shows it: of one size, whatever the samples'. [H, W, 3]
torch::Tensor overlay_picture(const SampleSet& set, int64_t i) {
  const auto image = set.shown_picture(i);
  auto out = at::empty({image.height, image.width, 3}, at::kByte);
  std::copy(image.rgb.begin(), image.rgb.end(), out.data_ptr<uint8_t>());
  return out;
}

// Samples whose pictures are kept: spread over the tasks, the same ones at every stage.
nlohmann::json add_overlays(const Pooled& pooled, const std::vector<AnalysedTask>& tasks, int64_t samples,
                            int64_t count, NamedTensors& tensors) {
  auto list = nlohmann::json::array();
  std::vector<torch::Tensor> images, maps;
  const int64_t total = static_cast<int64_t>(tasks.size());
  int64_t offset = 0;
  for (int64_t t = 0; t < total; ++t) {
    const auto& task = tasks[static_cast<size_t>(t)];
    const int64_t wanted = (t + 1) * count / total - t * count / total;
    const auto rows = analysed_rows(task.name, task.set->size(), samples);
    const auto measured = static_cast<int64_t>(rows.size());
    for (int64_t i = 0; i < std::min(wanted, measured); ++i) {
      const auto row = static_cast<size_t>(rows[static_cast<size_t>(i)]);
      const auto& text = task.set->infos()[row];
      images.push_back(overlay_picture(*task.set, rows[static_cast<size_t>(i)]));
      maps.push_back(pooled.m.map[offset + i]);
      list.push_back({{"task", task.name},
                      {"question", text.question},
                      {"answer", text.answer},
                      {"prediction", task.score->texts[row]},
                      {"functional", functional_list(text.question)}});
    }
    offset += measured;
  }
  if (!images.empty()) {
    tensors.emplace_back("overlay.image", at::stack(images).contiguous());
    tensors.emplace_back("overlay.map", at::stack(maps));
  }
  return list;
}

}  // namespace

std::vector<int64_t> analysed_rows(const std::string& task, int64_t count, int64_t samples) {
  return drawn_rows(count, samples, draw_key(DrawPurpose::analysis, task));
}

std::map<int64_t, SkillScore> skill_scores(const std::vector<AnalysedTask>& tasks) {
  std::map<int64_t, SkillScore> out;
  for (const auto& task : tasks) {
    const auto best = task.set->posterior.argmax(1).cpu().contiguous();
    for (int64_t i = 0; i < best.numel(); ++i) {
      auto& entry = out[best.data_ptr<int64_t>()[i]];
      ++entry.samples;
      entry.sum += task.score->per_sample[static_cast<size_t>(i)];
    }
  }
  return out;
}

namespace {

// Rows of stages/AA/analysis.safetensors, one for every skill of every task.
struct AnalysisTables {
  std::vector<int64_t> skill, task, count, scored;
  std::vector<double> accuracy;
  std::vector<torch::Tensor> mean, variance, radial, angular, entropy, embedding;
};

AnalysisTables analysis_tables(const Pooled& pooled, const std::vector<AnalysedTask>& tasks) {
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> rows_of;  // by skill, then by task
  for (size_t i = 0; i < pooled.skill.size(); ++i)
    rows_of[{pooled.skill[i], pooled.task[i]}].push_back(static_cast<int64_t>(i));
  std::vector<std::map<int64_t, SkillScore>> scores;
  for (const auto& task : tasks) scores.push_back(skill_scores({task}));
  AnalysisTables out;
  for (const auto& [key, rows] : rows_of) {
    const auto index = torch::tensor(rows, at::kLong);
    const auto pick = [&](const torch::Tensor& t) { return t.to(at::kDouble).index_select(0, index); };
    const auto& score = scores[static_cast<size_t>(key.second)].at(key.first);
    out.skill.push_back(key.first);
    out.task.push_back(key.second);
    out.count.push_back(static_cast<int64_t>(rows.size()));
    out.scored.push_back(score.samples);
    out.accuracy.push_back(score.accuracy());
    const auto phi = pick(pooled.m.descriptor);
    out.mean.push_back(phi.mean(0));
    out.variance.push_back(rows.size() > 1 ? phi.var(0, /*unbiased=*/true) : torch::zeros_like(out.mean.back()));
    out.radial.push_back(pick(pooled.m.radial).mean(0));
    out.angular.push_back(pick(pooled.m.angular).mean(0));
    out.entropy.push_back(pick(pooled.m.entropy).mean());
    out.embedding.push_back(pick(pooled.m.embedding).mean(0));
  }
  return out;
}

// The samples that were measured, so that a later comparison can see whether they are the same ones.
std::string samples_hash(const AnalysedTask& task, int64_t samples) {
  auto list = nlohmann::json::array();
  for (const int64_t i : analysed_rows(task.name, task.set->size(), samples)) {
    const auto& text = task.set->info(i);
    list.push_back({text.id, text.question, text.answer});
  }
  const auto bytes = list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

}  // namespace

void write_analysis(const std::string& path, const Answerer& who, const std::vector<AnalysedTask>& tasks,
                    const AnalysisPlan& plan, const Team& team) {
  const auto& memory = plan.memory;
  const auto pooled = measure_all(who, tasks, plan, team);
  if (!team.leads()) return;
  const auto rows = analysis_tables(pooled, tasks);
  const auto index = [](const std::vector<int64_t>& list) { return torch::tensor(list, at::kLong); };
  // Moments in double, so that tasks can be pooled afterwards without loss; what is large or a sample's in single.
  NamedTensors tensors = {{"skill", index(rows.skill)},
                          {"task", index(rows.task)},
                          {"count", index(rows.count)},
                          {"scored", index(rows.scored)},
                          {"accuracy", torch::tensor(rows.accuracy, at::kDouble)},
                          {"mean", at::stack(rows.mean)},
                          {"variance", at::stack(rows.variance)},
                          {"radial", at::stack(rows.radial)},
                          {"angular", at::stack(rows.angular)},
                          {"entropy", at::stack(rows.entropy)},
                          {"embedding", at::stack(rows.embedding).to(at::kFloat)},
                          {"sample.skill", index(pooled.skill)},
                          {"sample.task", index(pooled.task)},
                          {"sample.correct", torch::tensor(pooled.correct, at::kDouble).to(at::kFloat)},
                          {"sample.distance", torch::tensor(distances(pooled, memory), at::kDouble).to(at::kFloat)},
                          {"sample.descriptor", pooled.m.descriptor.to(at::kFloat)}};
  if (plan.heads) tensors.emplace_back("sample.heads", pooled.m.heads.to(at::kFloat));
  const auto pictures = add_overlays(pooled, tasks, plan.samples, plan.overlays, tensors);
  auto names = nlohmann::json::array(), hashes = nlohmann::json::array();
  for (const auto& task : tasks) {
    names.push_back(task.name);
    hashes.push_back(samples_hash(task, plan.samples));
  }
  const auto text = [](const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  save_tensors(path, tensors,
               {{"asr_analysis", kAnalysisFormat},
                {"skill_names", text(skill_names())},
                {"task_names", text(names)},
                {"task_samples", text(hashes)},
                {"options", memory.options.manifest().dump()},
                {"overlay", text(pictures)}});
}

}  // namespace asr
