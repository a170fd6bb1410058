// Qwen2.5-VL: pictures of any size; four patches are one visual token, whose three-part position says when and where it
// is. Attention lies on the merged grid.
#include <array>

#include "backbones/pass_parts.h"
#include "backbones/pretrained.h"
#include "base/error.h"
#include "nn/model_config.h"
#include "nn/qwen_vit.h"

namespace asr {
namespace {

const PretrainedBackbone::Renames kQwenRenames = {
    {"model.visual.", "model.visual."},
    {"model.language_model.", "model.language_model."},
    {"visual.", "model.visual."},
    {"model.", "model.language_model."},
};

class Qwen25Vl final : public PretrainedBackbone {
 public:
  explicit Qwen25Vl(const ModelFolder& folder) : PretrainedBackbone(folder, kQwenRenames) {
    const auto& c = folder.config;
    const auto& path = folder.config_path;
    auto weights = weights_of(folder, kQwenRenames);
    vision_ = QwenVit(c, weights.below("model.visual."));
    load_text(weights);
    weights.finish();
    check(!text_.decoder.config.rotary.sections.empty(), path, ": says no mrope_section");
    image_token_ = ModelConfig(c, path).count("image_token_id", 151655);
    load_processors(/*pictures=*/true);
    prompt_.image = "<|image_pad|>";
    prompt_.before = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n";
    prompt_.picture = "<|vision_start|><|image_pad|><|vision_end|>";
    prompt_.after = "<|im_end|>\n<|im_start|>assistant\n";
    prompt_.answer_after = "<|im_end|>";
  }

  bool vision_adapted() const override { return vision_.adapted(); }

 protected:
  int64_t tower_width() const override { return vision_.config.width; }

  torch::Tensor visual_tokens(const Batch& batch, const Pass& pass, VisualLook* look) const override {
    check(batch.image_grid.defined(), "pictures for Qwen2.5-VL need image_grid_thw");
    torch::Tensor states;
    const auto own = vision_pass(pass, pass.given ? patch_samples(batch) : torch::Tensor());
    const auto out = vision_(batch.pixels.to(compute_type()), batch.image_grid, own, &states);
    if (look && look->states) look->tower = last_picture_states(batch, states);
    return out;
  }

  std::vector<int64_t> picture_tokens(const Batch& batch) const {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < batch.image_grid.size(0); ++i) {
      const auto [frames, rows, across] = merged_grid(batch, i);
      out.push_back(frames * rows * across);
    }
    return out;
  }

  PictureSizes picture_sizes(const Batch& batch) const override {
    PictureSizes out{{}, picture_tokens(batch)};
    for (const int64_t tokens : out.tokens) out.rows.push_back(tokens * merge() * merge());
    return out;
  }

  // Whose each patch is; patches of all samples lie below one another.
  torch::Tensor patch_samples(const Batch& batch) const {
    const auto tokens = picture_tokens(batch);
    const auto counts = torch::tensor(tokens, at::kLong) * (merge() * merge());
    const auto samples = torch::tensor(picture_samples(batch, tokens), at::kLong);
    return samples.repeat_interleave(counts).to(batch.pixels.device());
  }

  // Pictures differ in size, so that each sample's last one is read by itself.
  TowerStates last_picture_states(const Batch& batch, const torch::Tensor& states) const {
    const auto tokens = picture_tokens(batch);
    const auto samples = picture_samples(batch, tokens);
    std::vector<torch::Tensor> first(static_cast<size_t>(batch.size()),
                                     torch::zeros({states.size(1)}, states.options().dtype(at::kFloat)));
    auto largest = first, mean = first;
    int64_t begin = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t patches = tokens[i] * merge() * merge();
      const auto own = states.narrow(0, begin, patches).to(at::kFloat);
      const auto sample = static_cast<size_t>(samples[i]);
      first[sample] = own[0];
      largest[sample] = own.amax(0);
      mean[sample] = own.mean(0);
      begin += patches;
    }
    return {at::stack(first), at::stack(largest), at::stack(mean)};
  }

  int64_t merge() const { return vision_.config.merge; }
  std::array<int64_t, 3> merged_grid(const Batch& batch, int64_t image) const {  // frames, rows, columns of tokens
    const int64_t* grid = batch.image_grid.data_ptr<int64_t>() + image * 3;
    return {grid[0], grid[1] / merge(), grid[2] / merge()};
  }

  // Text advances all three parts together; a picture's tokens stand at its beginning plus their row and column.
  torch::Tensor positions(const Batch& batch, const torch::Tensor& ids, const torch::Tensor& mask) const override {
    const auto tokens = ids.cpu().contiguous(), real = mask.cpu().contiguous();
    const int64_t B = ids.size(0), T = ids.size(1);
    auto out = torch::ones({3, B, T}, at::kLong);
    auto place = out.accessor<int64_t, 3>();
    int64_t image = 0;
    for (int64_t b = 0; b < B; ++b) {
      const int64_t* id = tokens.data_ptr<int64_t>() + b * T;
      const bool* seen = real.data_ptr<bool>() + b * T;
      int64_t next = 0;
      for (int64_t t = 0; t < T;) {
        if (!seen[t]) {
          ++t;
        } else if (id[t] != image_token_ || !batch.image_grid.defined()) {
          for (int64_t part = 0; part < 3; ++part) place[part][b][t] = next;
          ++next;
          ++t;
        } else {
          check(image < batch.image_grid.size(0), "there are more image tokens than image_grid_thw accounts for");
          const auto [frames, rows, across] = merged_grid(batch, image++);
          check(t + frames * rows * across <= T, "a picture's image tokens are cut off");
          for (int64_t f = 0; f < frames; ++f)
            for (int64_t y = 0; y < rows; ++y)
              for (int64_t x = 0; x < across; ++x) {
                place[0][b][t] = next + f;
                place[1][b][t] = next + y;
                place[2][b][t] = next + x;
                ++t;
              }
          next += std::max({frames, rows, across});
        }
      }
    }
    return out.to(ids.device());
  }

  int64_t image_tokens(const ProcessedImages& images, size_t index) const override {
    const int64_t* grid = &images.layout.at(index * 3);
    return grid[0] * grid[1] * grid[2] / (merge() * merge());
  }

  PictureCells picture_cells(const Batch& batch, int64_t image) const override {
    check(image < batch.image_grid.size(0), "there are more visual tokens than pictures account for");
    const auto [frames, rows, across] = merged_grid(batch, image);
    const int64_t area = rows * across;
    PictureCells out{{0, frames * area, rows, across, {}}, frames * area};
    if (frames > 1)  // frames lie on each other
      for (int64_t i = 0; i < frames * area; ++i) out.cells.cell.push_back(i % area);
    return out;
  }

  void each_vision_weight(const std::function<void(torch::Tensor&)>& visit) override {
    vision_.each([&](torch::Tensor& weight) { visit(weight); });
  }
  std::vector<AdapterSite> vision_sites() override {
    auto out = vision_.sites("model.visual.");
    out.push_back({"model.visual.merger.mlp.0", &vision_.merger_in, SitePart::projector});
    out.push_back({"model.visual.merger.mlp.2", &vision_.merger_out, SitePart::projector});
    return out;
  }

 private:
  QwenVit vision_;
};

}  // namespace

std::unique_ptr<Backbone> make_qwen2_5_vl_backbone(const ModelFolder& folder) {
  return std::make_unique<Qwen25Vl>(folder);
}

}  // namespace asr
