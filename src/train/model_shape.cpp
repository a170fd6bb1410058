#include "train/model_shape.h"

#include <filesystem>
#include <map>

#include "backbones/model_folder.h"
#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "io/safetensors_metadata.h"
#include "nn/model_config.h"

namespace asr {
namespace {

using nlohmann::json;

double product(int64_t a, int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

void read_text(const json& config, const std::string& path, ModelShape& out) {
  const ModelConfig text(config, path);
  const bool llama = text.text("model_type", "llama") == "llama";
  out.layers = text.count("num_hidden_layers", 32);
  out.width = text.count("hidden_size", 4096);
  out.heads = text.count("num_attention_heads", 32);
  out.kv_heads = text.count("num_key_value_heads", llama ? out.heads : 32);
  out.mlp = text.count("intermediate_size", llama ? 11008 : 22016);
  out.vocabulary = text.count("vocab_size", llama ? 32000 : 151936);
  out.head = text.count("head_dim", out.width / out.heads);
}

// Towers differ in what they call their sizes.
void read_vision(const ModelConfig& config, const std::string& type, ModelShape& out) {
  const auto vision = config.part("vision_config");
  const bool qwen = type == "qwen2_5_vl", blip = type == "instructblip";
  out.vision_layers = vision.count(qwen ? "depth" : "num_hidden_layers", qwen ? 32 : blip ? 39 : 24);
  out.vision_width = vision.count("hidden_size", qwen ? 1280 : blip ? 1408 : 1024);
  out.vision_mlp = vision.count("intermediate_size", qwen ? 3420 : blip ? 6144 : 4096);
  out.vision_mlp_maps = qwen ? 3 : 2;
  out.patch_side = vision.sides("patch_size", 14)[0];
  if (!qwen) out.image_side = vision.sides("image_size", type == "internvl" ? 448 : blip ? 224 : 336)[0];
  if (type == "llava") {  // the states of the layer before the last are taken; what follows does not run
    const auto wanted = config.integers("vision_feature_layer", {-2});
    out.projector = {{out.vision_width, out.width}, {out.width, out.width}};
    if (wanted[0] < 0 && -wanted[0] <= out.vision_layers) out.vision_layers += wanted[0] + 1;
  } else if (type == "internvl") {
    out.fold = static_cast<int64_t>(1 / config.number("downsample_ratio", 0.5));
    out.projector = {{out.vision_width * out.fold * out.fold, out.width}, {out.width, out.width}};
  } else if (qwen) {
    out.fold = vision.count("spatial_merge_size", 2);
    const int64_t joined = out.vision_width * out.fold * out.fold;
    out.projector = {{joined, joined}, {joined, out.width}};
  }
}

void read_qformer(const ModelConfig& config, ModelShape& out) {
  const auto part = config.part("qformer_config");
  out.queries = config.count("num_query_tokens", 32);
  out.query_layers = part.count("num_hidden_layers", 12);
  out.query_width = part.count("hidden_size", 768);
  out.query_mlp = part.count("intermediate_size", 3072);
  out.cross_every = part.count("cross_attention_frequency", 2);
  out.projector = {{out.query_width, out.width}};
}

// Sizes in the metadata of a built-in model's file.
ModelShape built_in_shape(const std::string& path) {
  const auto file = read_safetensors(path);
  const auto kind = file.metadata.find("asr_backbone");
  const auto sizes = file.metadata.count("config") ? metadata_json(file, "config") : json();
  const auto list = [&](const char* key, size_t count) {
    const bool good = sizes.is_object() && sizes.contains(key) && sizes[key].is_array() && sizes[key].size() == count;
    check(kind != file.metadata.end() && good, path, ": is no built-in model");
    return sizes[key].get<std::vector<int64_t>>();
  };
  const auto v = list("vision", 6), t = list("text", 5);
  ModelShape out;
  out.type = kind->second;
  out.cross = out.type == "tiny_cross";
  out.tied = true;
  out.layers = t[0];
  out.width = t[1];
  out.heads = t[2];
  out.kv_heads = t[3];
  out.mlp = t[4];
  out.head = out.width / out.heads;
  out.vocabulary = file.at("embedding.weight").shape[0];
  out.image_side = v[0];
  out.patch_side = v[1];
  out.vision_layers = v[2];
  out.vision_width = v[3];
  out.vision_mlp = v[5];
  out.projector = {{out.vision_width, out.width}, {out.width, out.width}};
  out.weight_size = 4;  // computed with in single precision, whatever the file holds
  for (const auto& tensor : file.tensors) {
    double count = 1;
    for (const int64_t size : tensor.shape) count *= static_cast<double>(size);
    out.weight_bytes += count * 4;
  }
  return out;
}

}  // namespace

double ModelShape::decoder_weights() const {
  const double attention = 2 * product(width, heads * head) + 2 * product(width, kv_heads * head);
  return static_cast<double>(layers) * (attention + 3 * product(width, mlp) + (cross ? 4 * product(width, width) : 0));
}

double ModelShape::vision_weights() const {
  const double map = product(vision_width, vision_mlp);
  return static_cast<double>(vision_layers) *
         (4 * product(vision_width, vision_width) + static_cast<double>(vision_mlp_maps) * map);
}

double ModelShape::weights() const {
  double out = decoder_weights() + vision_weights() + (tied ? 1 : 2) * product(vocabulary, width);
  for (const auto& [in, to] : projector) out += product(in, to);
  const int64_t crossed = query_layers ? (query_layers + cross_every - 1) / cross_every : 0;
  out +=
      static_cast<double>(query_layers) * (4 * product(query_width, query_width) + 4 * product(query_width, query_mlp));
  return out + static_cast<double>(crossed) * 2 * product(query_width, query_width + vision_width);
}

double ModelShape::adapter_weights(int64_t rank) const {
  const int64_t q = width + heads * head, v = width + kv_heads * head;
  double sizes = static_cast<double>(layers) * static_cast<double>(q + v + (cross ? 4 * width : 0));
  for (const auto& [in, to] : projector) sizes += static_cast<double>(in + to);
  const int64_t crossed = query_layers ? (query_layers + cross_every - 1) / cross_every : 0;
  sizes += static_cast<double>(query_layers * 4 * query_width + crossed * (3 * query_width + vision_width));
  return sizes * static_cast<double>(rank);
}

double ModelShape::all_linear_weights(int64_t rank) const {
  // What the usual sites leave out: k, o, gate, up, down, and k and o of cross-attention.
  const int64_t more = 2 * width + kv_heads * head + heads * head + 3 * (width + mlp) + (cross ? 4 * width : 0);
  return adapter_weights(rank) + static_cast<double>(layers * more) * static_cast<double>(rank);
}

double ModelShape::projector_adapter(int64_t rank) const {
  double sizes = 0;
  for (const auto& [in, to] : projector) sizes += static_cast<double>(in + to);
  return sizes * static_cast<double>(rank);
}

double ModelShape::projector_weights() const {
  double out = 0;
  for (const auto& [in, to] : projector) out += product(in, to);
  return out;
}

ModelShape shape_of_config(const json& config, const std::string& path) {
  ModelFolder folder;
  folder.config = config;
  folder.config_path = path;
  const ModelConfig top(config, path);
  ModelShape out;
  out.type = top.text("model_type", "");
  out.tied = folder.tied_embeddings();
  read_text(folder.text_config(), path, out);
  if (config.contains("vision_config")) read_vision(top, out.type, out);
  if (config.contains("qformer_config")) read_qformer(top, out);
  out.weight_bytes = out.weights() * static_cast<double>(out.weight_size);
  return out;
}

ModelShape read_model_shape(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return built_in_shape(path);
  const auto folder = read_model_folder(path);
  auto out = shape_of_config(folder.config, folder.config_path);
  const auto set = read_safetensors_set(path);
  std::map<int64_t, double> by_size;
  out.weight_bytes = 0;
  for (const auto& [name, view] : set.tensors) {
    double count = 1;
    for (const int64_t size : view->shape) count *= static_cast<double>(size);
    const auto bytes = static_cast<double>(view->data.size);
    out.weight_bytes += bytes;
    if (count > 0) by_size[static_cast<int64_t>(bytes / count)] += bytes;
  }
  double most = 0;
  for (const auto& [size, bytes] : by_size) {
    if (bytes > most) {
      out.weight_size = size;
      most = bytes;
    }
  }
  return out;
}

PublishedModel published_model(const std::string& path) {
  const auto file = find_asset("model-shapes.json");
  const auto known = read_json_object(file);
  auto name = std::filesystem::path(path).filename().string();
  if (name.empty()) name = std::filesystem::path(path).parent_path().filename().string();
  std::vector<std::string> names;
  for (const auto& [key, value] : known.items()) names.push_back(key);
  check(known.contains(name), "no published sizes of a model '", printable(name), "'", did_you_mean(name, names));
  PublishedModel out;
  out.name = name;
  out.shape = shape_of_config(known[name]["config"], file);
  out.processor = make_image_processor(known[name]["image_processor"], file);
  return out;
}

PublishedConfig published_config(const std::string& name) {
  const auto known = read_json_object(find_asset("model-shapes.json"));
  std::vector<std::string> names;
  for (const auto& [key, value] : known.items()) {
    names.push_back(value.at("short").get<std::string>());
    if (key == name || names.back() == name) return {value.at("config"), value.at("image_processor")};
  }
  fail("no published sizes of a model '", printable(name), "'", did_you_mean(name, names));
}

PictureTokens picture_tokens(const ModelShape& shape, const ImageProcessor* processor, int64_t height, int64_t width) {
  if (shape.vision_layers == 0) return {};
  const auto square = [](int64_t side, int64_t patch) {
    const auto across = static_cast<double>(side / patch);
    return across * across;
  };
  const double folded = static_cast<double>(shape.fold * shape.fold);
  if (shape.type == "internvl" || shape.type == "qwen2_5_vl") {
    check(processor != nullptr, "the number of visual tokens needs the model's image processor");
    ProcessedImages images;
    Image8 picture{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3), 0)};
    processor->append(picture, "a picture", images);
    if (shape.type == "qwen2_5_vl") {
      const auto positions = static_cast<double>(images.layout[0] * images.layout[1] * images.layout[2]);
      return {positions / folded, positions, positions};
    }
    const double tile = square(shape.image_side, shape.patch_side), tiles = static_cast<double>(images.layout[0]);
    return {tiles * tile / folded, tiles * (tile + 1), tile + 1};
  }
  const double patches = square(shape.image_side, shape.patch_side);
  if (shape.queries) return {static_cast<double>(shape.queries), patches + 1, patches + 1};
  return {patches, patches + (shape.built_in() ? 0 : 1), patches + 1};
}

}  // namespace asr
