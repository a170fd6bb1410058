// InstructBLIP: learnt queries look at the picture through the Q-Former's cross-attention while reading the question;
// their states, projected, stand before the text. The queries are the rows of the tapped attention, all with equal
// weight or weighted by the question's attention to them.
#include <filesystem>

#include "backbones/pretrained.h"
#include "base/error.h"
#include "nn/eva_vit.h"
#include "nn/model_config.h"
#include "nn/qformer.h"

namespace asr {
namespace {

class InstructBlip final : public PretrainedBackbone {
 public:
  explicit InstructBlip(const ModelFolder& folder) : PretrainedBackbone(folder) {
    const auto& c = folder.config;
    const auto& path = folder.config_path;
    check(ModelConfig(c, path).flag("use_decoder_only_language_model", true), path,
          ": an encoder-decoder language model (Flan-T5) is not supported; use a Vicuna checkpoint");
    auto weights = weights_of(folder);
    vision_ = EvaVit(c, weights.below("vision_model."));
    qformer_ = QFormer(c, weights);
    load_text(weights, "language_model.lm_head.");
    projection_ = weights.linear("language_projection", width(), qformer_.width, true);
    weights.finish();
    image_token_ = ModelConfig(c, path).count("image_token_id", ModelConfig(c, path).count("image_token_index", 32000));
    load_processors(/*pictures=*/true);
    const auto words = folder.path + "/qformer_tokenizer";
    std::error_code error;
    if (std::filesystem::is_directory(words, error)) instruction_tokenizer_ = load_tokenizer(words);
    prompt_.image = "<image>";
    prompt_.image_first = true;
    prompt_.beginning = "<s>";
    prompt_.before = "Question: ";
    prompt_.after = " Short answer:";
    prompt_.answer_before = " ";
    prompt_.answer_after = "</s>";
  }

  int64_t layers() const override { return qformer_.cross_attentions(); }

  bool vision_adapted() const override { return vision_.adapted(); }

 protected:
  std::string text_prefix() const override { return "language_model.model."; }
  bool taps_vision_path() const override { return true; }
  // "Short answer:" would contradict instructions that ask for more; they are a whole prompt by themselves.
  PromptTemplate instruction_prompt() const override {
    auto out = prompt_;
    out.before.clear();
    out.after.clear();
    return out;
  }

  int64_t tower_width() const override { return vision_.shape.width; }

  torch::Tensor visual_tokens(const Batch& batch, const Pass& whole, VisualLook* look) const override {
    const auto pass = picture_pass(batch, whole, qformer_.queries);
    check(batch.instruction.defined(), "InstructBLIP needs the question as its Q-Former reads it (qformer_input_ids)");
    torch::Tensor seen;
    {
      const at::AutoGradMode record(at::GradMode::is_enabled() && vision_.adapted());  // the tower itself is frozen
      seen = vision_(batch.pixels.to(compute_type()), pass);
    }
    if (look && look->states) {
      const std::vector<int64_t> tokens(static_cast<size_t>(seen.size(0)), qformer_.queries);
      look->tower = tower_states(seen, /*class_token=*/true, picture_samples(batch, tokens), batch.size());
    }
    auto* tap = look && !look->tap.layers.empty() ? &look->tap : nullptr;
    const int64_t B = seen.size(0), queries = qformer_.queries, patches = seen.size(1) - 1;
    const auto index = batch.instruction.options();
    TapRequest cross, self;
    TapResult text_to_queries;
    QFormerTap taps;
    if (tap) {
      tap->rows = at::arange(queries, index).expand({B, queries});
      tap->columns = at::arange(patches, index).expand({B, patches});
      cross.layers = tap->layers;
      cross.rows = tap->rows;
      cross.columns = tap->columns + 1;
      taps.cross = &cross;
      taps.cross_result = &tap->result;
      if (options_.text_weighted_queries) {
        const int64_t words = batch.instruction.size(1);
        self.layers = {static_cast<int64_t>(qformer_.layers.size()) - 1};
        self.rows = (at::arange(words, index) + queries).expand({B, words});
        self.rows = at::where(batch.instruction_mask, self.rows, at::full_like(self.rows, -1));
        self.columns = tap->rows;
        taps.self = &self;
        taps.self_result = &text_to_queries;
      }
    }
    const auto states = qformer_(seen, batch.instruction, batch.instruction_mask, pass, taps);
    if (tap) {
      auto weights = torch::ones({B, queries}, seen.options().dtype(at::kFloat));
      if (options_.text_weighted_queries) weights = text_to_queries.layers[0].to(at::kFloat).sum({1, 2});
      tap->weights = weights / weights.sum(1, true).clamp_min(1e-12);
    }
    return projection_(states.narrow(1, 0, queries), pass).flatten(0, 1);
  }

  std::pair<int64_t, int64_t> grid() const override { return {vision_.shape.rows(), vision_.shape.columns()}; }
  std::vector<SampleCells> cells(const Batch& batch, const torch::Tensor&) const override {
    const auto [height, width] = grid();
    return std::vector<SampleCells>(static_cast<size_t>(batch.size()), {{0, height * width, height, width, {}}});
  }
  int64_t image_tokens(const ProcessedImages&, size_t) const override { return qformer_.queries; }

  // The Q-Former reads the prompt with its own vocabulary, between its own marks.
  void pack_instructions(const std::vector<std::string>& texts, Batch& batch) const override {
    check(instruction_tokenizer_ != nullptr, folder_.path,
          ": holds no qformer_tokenizer folder, which the Q-Former's questions need");
    const auto& t = *instruction_tokenizer_;
    std::vector<std::vector<int64_t>> rows;
    size_t longest = 0;
    for (const auto& text : texts) {
      std::vector<int64_t> words;
      for (const auto& token : t.encode(text)) words.push_back(token.id);
      // What is too long for the Q-Former is cut from the left, as everywhere.
      const size_t room = static_cast<size_t>(qformer_.text_positions.size(0)) - 2;
      if (words.size() > room) words.erase(words.begin(), words.end() - static_cast<int64_t>(room));
      std::vector<int64_t> row = {t.id_of("[CLS]")};
      row.insert(row.end(), words.begin(), words.end());
      row.push_back(t.id_of("[SEP]"));
      longest = std::max(longest, row.size());
      rows.push_back(std::move(row));
    }
    const auto B = static_cast<int64_t>(rows.size()), T = static_cast<int64_t>(longest);
    batch.instruction = at::full({B, T}, t.find("[PAD]").value_or(0), at::kLong);
    batch.instruction_mask = at::zeros({B, T}, at::kBool);
    for (int64_t b = 0; b < B; ++b)
      for (size_t i = 0; i < rows[static_cast<size_t>(b)].size(); ++i) {
        batch.instruction[b][static_cast<int64_t>(i)] = rows[static_cast<size_t>(b)][i];
        batch.instruction_mask[b][static_cast<int64_t>(i)] = true;
      }
  }

  void each_vision_weight(const std::function<void(torch::Tensor&)>& visit) override {
    const auto plain = [&](torch::Tensor& weight) { visit(weight); };
    vision_.each(plain);
    qformer_.each(plain);
    plain(projection_.weight);
    plain(projection_.bias);
  }
  std::vector<AdapterSite> vision_sites() override {
    auto out = vision_.sites("vision_model.");
    for (auto& site : qformer_.sites("qformer.")) out.push_back(site);
    out.push_back({"language_projection", &projection_, SitePart::projector});
    return out;
  }

 private:
  EvaVit vision_;
  QFormer qformer_;
  Linear projection_;
  std::unique_ptr<Tokenizer> instruction_tokenizer_;
};

}  // namespace

std::unique_ptr<Backbone> make_instructblip_backbone(const ModelFolder& folder) {
  return std::make_unique<InstructBlip>(folder);
}

}  // namespace asr
