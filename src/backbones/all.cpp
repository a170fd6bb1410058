#include <filesystem>
#include <nlohmann/json.hpp>

#include "backbones/model_folder.h"
#include "backbones/tiny.h"
#include "base/assets.h"
#include "base/error.h"
#include "base/text.h"

namespace asr {

#define ASR_BACKBONE(name, summary) std::unique_ptr<Backbone> make_##name##_backbone(const ModelFolder& folder);
#include "backbones/backbones.def"
#undef ASR_BACKBONE

const std::vector<BackboneInfo>& backbone_infos() {
  static const std::vector<BackboneInfo> infos = {
      {"tiny", "built in: a small ViT, a projector and a causal decoder that reads visual tokens"},
      {"tiny_cross", "built in: the same with explicit cross-attention to the visual tokens"},
#define ASR_BACKBONE(name, summary) {#name, summary},
#include "backbones/backbones.def"
#undef ASR_BACKBONE
  };
  return infos;
}

std::unique_ptr<Backbone> load_backbone(const std::string& path) {
  check_model_path(path);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return TinyBackbone::load(path);
  return make_backbone(read_model_folder(path));
}

std::unique_ptr<Backbone> make_backbone(const ModelFolder& folder) {
  const std::string family = folder.type == "internvl_chat" ? "internvl" : folder.type;  // its authors' layout
#define ASR_BACKBONE(name, summary) \
  if (family == #name) return make_##name##_backbone(folder);
#include "backbones/backbones.def"
#undef ASR_BACKBONE
  std::vector<std::string> known;
#define ASR_BACKBONE(name, summary) known.push_back(#name);
#include "backbones/backbones.def"
#undef ASR_BACKBONE
  fail(folder.config_path, ": model_type '", folder.type, "' is not supported; known: ", join(known, ", "));
}

Batch Backbone::pack(const std::vector<PackItem>&) const {
  fail(name(), ": takes images of one size; there is nothing to pack");
}

Batch to_device(const Batch& batch, at::Device device) {
  Batch out = batch;
  for (auto* t : {&out.pixels, &out.features, &out.inserted, &out.ids, &out.mask, &out.labels, &out.question,
                  &out.functional, &out.instruction, &out.instruction_mask})
    if (t->defined()) *t = t->to(device);
  return out;
}

}  // namespace asr
