#include "io/image_processor.h"

#include <map>

#include "base/assets.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "io/processors/steps.h"

namespace asr {
namespace {

using nlohmann::json;
using Maker = std::unique_ptr<ImageProcessor> (*)(const ProcessorConfig&);

constexpr size_t max_config_bytes = size_t(1) << 20;

// The names that checkpoints carry, without the endings that only say how transformers computes.
const std::map<std::string, std::string>& families() {
  static const std::map<std::string, std::string> out = {
      {"CLIPImageProcessor", "clip"},           {"CLIPFeatureExtractor", "clip"},
      {"LlavaImageProcessor", "clip"},          {"Qwen2VLImageProcessor", "qwen2_vl"},
      {"Qwen2_5_VLImageProcessor", "qwen2_vl"}, {"GotOcr2ImageProcessor", "internvl"},
      {"BlipImageProcessor", "blip"},
  };
  return out;
}

Maker maker_of(const std::string& family) {
#define PROCESSOR(name) \
  if (family == #name) return make_##name##_processor;
#include "io/processors/processors.def"
#undef PROCESSOR
  fail("no image processor named '", family, "'");
}

std::string without_ending(std::string name) {
  for (const std::string ending : {"Fast", "Pil"})
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      name.resize(name.size() - ending.size());
  return name;
}

std::string type_of(const json& config, const std::string& path) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_string()) return without_ending(found->get<std::string>());
  }
  fail(path, ": no 'image_processor_type'; is this a Hugging Face model folder?");
}

json read_config(const std::string& path) {
  json out = read_json(path, max_config_bytes);
  check(out.is_object(), path, ": not a JSON object; fetch the file again");
  return out;
}

}  // namespace

std::unique_ptr<ImageProcessor> make_image_processor(const json& config, const std::string& path) {
  check(config.is_object(), path, ": the image processor's settings must be a JSON object");
  const std::string type = type_of(config, path);
  const auto family = families().find(type);
  if (family == families().end()) {
    std::vector<std::string> known;
    for (const auto& [name, unused] : families()) known.push_back(name);
    fail(path, ": image processor '", printable(type), "' is not known", did_you_mean(type, known));
  }
  return maker_of(family->second)({config, path});
}

std::unique_ptr<ImageProcessor> load_image_processor(const std::string& model_folder) {
  check_model_path(model_folder);
  const std::string model = model_folder + "/config.json";
  if (path_exists(model)) {
    const json config = read_config(model);
    if (config.contains("model_type") && config["model_type"] == json("internvl_chat"))
      return make_image_processor(internvl_chat_settings(config, model), model);
  }
  // The order in which transformers looks.
  const std::string whole = model_folder + "/processor_config.json", own = model_folder + "/preprocessor_config.json";
  if (path_exists(whole)) {
    const json config = read_config(whole);
    const auto found = config.find("image_processor");
    if (found != config.end() && found->is_object()) {
      json settings = *found;
      if (config.contains("processor_class")) settings["processor_class"] = config["processor_class"];
      return make_image_processor(settings, whole);
    }
  }
  check(path_exists(own), model_folder,
        ": no preprocessor_config.json there; give the folder of a Hugging Face checkpoint");
  return make_image_processor(read_config(own), own);
}

}  // namespace asr
