#include "skills/parser/parser.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/safetensors_metadata.h"
#include "nn/attention.h"
#include "skills/rules.h"
#include "skills/taxonomy.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

using nlohmann::json;

torch::Tensor rounded(const torch::Tensor& weight) {
  return weight.detach().to(at::kBFloat16).to(at::kFloat);
}

void check_options(const ParserOptions& o) {
  check(o.width % o.heads == 0, "parser.width=", o.width, " is no multiple of parser.heads=", o.heads);
}

json parse_metadata(const Safetensors& file, const char* key) {
  const auto found = file.metadata.find(key);
  check(found != file.metadata.end(), file.path, ": is no skill parser (no metadata '", key,
        "'); make one with asr parser train");
  return metadata_json(file, key);
}

std::vector<std::string> text_list(const Safetensors& file, const char* key) {
  const json list = parse_metadata(file, key);
  check(list.is_array(), file.path, ": metadata '", key, "' is not a list");
  std::vector<std::string> out;
  for (const auto& entry : list) {
    check(entry.is_string(), file.path, ": metadata '", key, "' holds something that is not text");
    out.push_back(entry.get<std::string>());
  }
  return out;
}

ParserOptions stored_options(const Safetensors& file) {
  ParserOptions options;
  OptionTable table;
  table.add("parser", options);
  for (const auto& assignment : manifest_assignments(parse_metadata(file, "options"), file.path)) table.set(assignment);
  check_options(options);
  return options;
}

}  // namespace

void ParserOptions::visit(OptionVisitor& visitor) {
  visitor("layers", layers, 1, 48, "encoder blocks");
  visitor("heads", heads, 1, 64, "attention heads a block");
  visitor("width", width, 4, 4096, "width of the encoder; a multiple of heads");
  visitor("mlp", mlp, 4, 16384, "hidden width of the blocks' MLP");
  visitor("pooling", pooling, "mean over all words, or the state of the opening mark");
  visitor("max_words", max_words, 1, 4096, "words read of a question; the rest is cut");
  visitor("buckets", buckets, 1, 65536, "shared numbers for unknown words");
  visitor("min_count", min_count, 1, 1000000, "words seen less often in training are unknown");
  visitor("max_vocabulary", max_vocabulary, 0, 1000000, "most words with a number of their own");
  visitor("steps", steps, 1, 100000000, "training steps");
  visitor("epochs", epochs, 0, 100000, "training passes over all questions, instead of steps; 0: by steps");
  visitor("batch", batch, 1, 65536, "questions a training step");
  visitor("learning_rate", learning_rate, 0, 1, "at the start, falling to 0 as a cosine");
  visitor("weight_decay", weight_decay, 0, 10, "of AdamW; 0: off");
  visitor("label_smoothing", label_smoothing, 0, 0.999, "target mass spread over all skills; 0: off");
  visitor("word_dropout", word_dropout, 0, 0.999, "chance that a word is read as an unknown one in training; 0: off");
}

ParserOptions ParserOptions::paper() {
  ParserOptions o;
  o.layers = 4;
  o.heads = 8;
  o.width = 512;
  o.mlp = 2048;
  o.learning_rate = 1e-4;
  o.buckets = 1024;
  o.epochs = 10;
  o.batch = 128;
  return o;
}

template <class Visit>
void SkillParser::visit(SkillParser& p, Visit&& visit) {
  const auto& o = p.options_;
  const auto skills = static_cast<int64_t>(p.skills_.size());
  const auto linear = [&](const std::string& name, Linear& l, int64_t out, int64_t in) {
    visit(name + ".weight", l.weight, std::vector<int64_t>{out, in});
    visit(name + ".bias", l.bias, std::vector<int64_t>{out});
  };
  const auto norm = [&](const std::string& name, LayerNorm& n) {
    visit(name + ".weight", n.weight, std::vector<int64_t>{o.width});
    visit(name + ".bias", n.bias, std::vector<int64_t>{o.width});
  };
  visit("embedding", p.embedding_, std::vector<int64_t>{p.vocabulary_.size(), o.width});
  visit("positions", p.positions_, std::vector<int64_t>{1 + o.max_words, o.width});
  p.layers_.resize(static_cast<size_t>(o.layers));
  for (size_t i = 0; i < p.layers_.size(); ++i) {
    auto& l = p.layers_[i];
    const std::string at = cat("layers.", i, ".");
    norm(at + "attention_norm", l.attention_norm);
    norm(at + "mlp_norm", l.mlp_norm);
    linear(at + "qkv", l.qkv, 3 * o.width, o.width);
    linear(at + "o", l.o, o.width, o.width);
    linear(at + "up", l.up, o.mlp, o.width);
    linear(at + "down", l.down, o.width, o.mlp);
  }
  norm("final_norm", p.final_norm_);
  linear("head", p.head_, skills, o.width);
}

SkillParser SkillParser::random(const ParserOptions& options, QuestionVocabulary vocabulary, uint64_t seed) {
  check_options(options);
  SkillParser p;
  p.options_ = options;
  p.vocabulary_ = std::move(vocabulary);
  p.skills_ = skill_names();
  auto generator = at::detail::createCPUGenerator(seed);
  visit(p, [&](const std::string& name, torch::Tensor& weight, const std::vector<int64_t>& shape) {
    const bool table = name == "embedding" || name == "positions";
    if (shape.size() == 1)
      weight = name.find("norm.weight") != std::string::npos ? torch::ones(shape) : torch::zeros(shape);
    else
      weight = rounded(at::randn(shape, generator, at::CPU(at::kFloat)) *
                       (table ? 0.1 : 1 / std::sqrt(static_cast<double>(shape[1]))));
  });
  return p;
}

std::vector<std::pair<std::string, torch::Tensor>> SkillParser::named_weights() const {
  std::vector<std::pair<std::string, torch::Tensor>> out;
  visit(const_cast<SkillParser&>(*this), [&](const std::string& name, torch::Tensor& weight,
                                             const std::vector<int64_t>&) { out.emplace_back(name, weight); });
  return out;
}

void SkillParser::replace_weights(const std::vector<torch::Tensor>& weights) {
  size_t next = 0;
  visit(*this, [&](const std::string&, torch::Tensor& weight, const std::vector<int64_t>&) {
    weight = rounded(weights.at(next++)).to(at::kCPU);
  });
}

void SkillParser::to(at::Device device) {
  visit(*this, [&](const std::string&, torch::Tensor& weight, const std::vector<int64_t>&) {
    weight = weight.detach().to(device);
  });
}

torch::Tensor SkillParser::logits(const std::vector<std::vector<int64_t>>& questions) const {
  const auto count = static_cast<int64_t>(questions.size());
  size_t longest = 1;
  for (const auto& ids : questions) longest = std::max(longest, ids.size());
  const auto T = static_cast<int64_t>(longest);
  auto ids = torch::zeros({count, T}, at::kLong);
  auto mask = torch::zeros({count, T}, at::kBool);
  for (int64_t b = 0; b < count; ++b) {
    const auto& row = questions[b];
    std::copy(row.begin(), row.end(), ids.data_ptr<int64_t>() + b * T);
    std::fill_n(mask.data_ptr<bool>() + b * T, row.size(), true);
  }
  const auto device = embedding_.device();
  ids = ids.to(device);
  mask = mask.to(device);
  const Pass pass;
  auto x = at::embedding(embedding_, ids) + positions_.narrow(0, 0, T);  // [B, T, width]
  for (const auto& l : layers_) {
    const auto parts = l.qkv(l.attention_norm(x), pass).chunk(3, -1);
    const auto mixed = attend(split_heads(parts[0], options_.heads), split_heads(parts[1], options_.heads),
                              split_heads(parts[2], options_.heads), mask, /*causal=*/false);
    x = x + l.o(join_heads(mixed), pass);
    x = x + l.down(at::gelu(l.up(l.mlp_norm(x), pass)), pass);
  }
  x = final_norm_(x);
  if (options_.pooling == Pooling::cls) return head_(x.select(1, 0), pass);
  const auto weight = mask.to(x.scalar_type()).unsqueeze(-1);  // [B, T, 1]
  return head_((x * weight).sum(1) / weight.sum(1), pass);
}

torch::Tensor SkillParser::posterior(const std::vector<std::string>& questions, int64_t batch) const {
  check(batch >= 1, "a batch needs at least one question");
  at::NoGradGuard no_grad;
  std::vector<int64_t> columns;
  for (const auto& skill : skills_) columns.push_back(skill_or_other(skill));
  const auto places = torch::tensor(columns, at::kLong);
  const auto skills = static_cast<int64_t>(skill_names().size());
  std::vector<torch::Tensor> parts = {torch::empty({0, skills}, at::kFloat)};
  std::vector<std::vector<int64_t>> some;
  for (size_t i = 0; i < questions.size(); ++i) {
    some.push_back(vocabulary_.ids(questions[i], options_.max_words));
    if (static_cast<int64_t>(some.size()) < batch && i + 1 < questions.size()) continue;
    const auto own = (logits(some).to(at::kCPU, at::kDouble) / temperature).softmax(-1);
    const auto merged =
        skills_ == skill_names() ? own : at::zeros({own.size(0), skills}, own.options()).index_add(1, places, own);
    parts.push_back(merged.to(at::kFloat));
    some.clear();
  }
  return at::cat(parts, 0);
}

void SkillParser::save(const std::string& path, const std::map<std::string, std::string>& notes) const {
  NamedTensors tensors;
  for (const auto& [name, weight] : named_weights()) tensors.emplace_back(name, weight.to(at::kCPU, at::kBFloat16));
  ParserOptions options = options_;
  OptionTable table;
  table.add("parser", options);
  auto metadata = notes;
  metadata["asr_parser"] = json(1).dump();
  metadata["options"] = table.manifest().dump();
  metadata["skills"] = json(skills_).dump();
  metadata["vocabulary"] = json(vocabulary_.words()).dump(-1, ' ', false, json::error_handler_t::replace);
  metadata["temperature"] = json(temperature).dump();
  save_tensors(path, tensors, metadata);
}

SkillParser SkillParser::load(const std::string& path) {
  const auto file = read_safetensors(path);
  const json format = parse_metadata(file, "asr_parser");
  check(format == 1, path, ": parser format ", format.dump(), " is not known to this version");
  verify_checksum(file);
  SkillParser p;
  p.options_ = stored_options(file);
  p.skills_ = text_list(file, "skills");
  check(!p.skills_.empty(), path, ": metadata 'skills' names none");
  for (const auto& skill : p.skills_) skill_or_other(skill);  // an error now rather than at the first question
  p.vocabulary_ = QuestionVocabulary(text_list(file, "vocabulary"), p.options_.buckets);
  const json temperature = parse_metadata(file, "temperature");
  check(temperature.is_number() && temperature.get<double>() > 0, path,
        ": metadata 'temperature' is no number above 0");
  p.temperature = temperature.get<double>();
  size_t used = 0;
  visit(p, [&](const std::string& name, torch::Tensor& weight, const std::vector<int64_t>& shape) {
    weight = load_real(file, name).to(at::kFloat);
    check(weight.sizes() == at::IntArrayRef(shape), path, ": '", name, "' has shape ", shape_text(weight.sizes()),
          "; expected ", shape_text(shape));
    check(weight.isfinite().all().item<bool>(), path, ": '", name, "' holds NaN or infinite values");
    ++used;
  });
  check(used == file.tensors.size(), path, ": holds ", file.tensors.size() - used,
        " tensors that a parser has no place for");
  return p;
}

torch::Tensor rule_posteriors(const std::vector<std::string>& questions) {
  auto out =
      torch::empty({static_cast<int64_t>(questions.size()), static_cast<int64_t>(skill_names().size())}, at::kFloat);
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto row = rule_posterior(questions[i], vqa_question_type(questions[i]));
    std::copy(row.begin(), row.end(), out.data_ptr<float>() + static_cast<int64_t>(i) * out.size(1));
  }
  return out;
}

}  // namespace asr
