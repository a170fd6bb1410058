#include "nn/qwen_vit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "nn/adapter_sites.h"
#include "ops/gated_silu.h"

namespace asr {
namespace {

QwenVisionLayer take_layer(Weights weights, const QwenVit::Config& c) {
  constexpr double eps = 1e-6;  // no configuration names another
  QwenVisionLayer out;
  out.attention_norm = weights.rms_norm("norm1", c.width, eps);
  out.mlp_norm = weights.rms_norm("norm2", c.width, eps);
  out.qkv = weights.linear("attn.qkv", 3 * c.width, c.width, true);
  out.o = weights.linear("attn.proj", c.width, c.width, true);
  out.gate = weights.linear("mlp.gate_proj", c.mlp, c.width, true);
  out.up = weights.linear("mlp.up_proj", c.mlp, c.width, true);
  out.down = weights.linear("mlp.down_proj", c.width, c.mlp, true);
  return out;
}

QwenVit::Config read_config(const ModelConfig& vision) {
  QwenVit::Config c;
  c.width = vision.count("hidden_size", 3584);
  c.heads = vision.count("num_heads", 16);
  c.mlp = vision.count("intermediate_size", 3420);
  c.out = vision.count("out_hidden_size", 3584);
  c.channels = vision.count("in_channels", 3);
  c.frames = vision.count("temporal_patch_size", 2);
  c.patch = vision.count("patch_size", 14);
  c.merge = vision.count("spatial_merge_size", 2);
  c.window = vision.count("window_size", 112) / c.merge / c.patch;
  c.activation = activation_named(vision.text("hidden_act", "silu"));
  if (vision.find("rope_parameters")) c.theta = vision.part("rope_parameters").number("rope_theta", c.theta);
  check(c.window > 0, vision.name_of("window_size"), " is smaller than a block of ", c.merge, " x ", c.merge,
        " patches");
  check(c.width % (4 * c.heads) == 0, vision.name_of("hidden_size"), " (", c.width,
        ") must be a multiple of four times num_heads (", c.heads, ")");
  return c;
}

std::vector<PatchGrid> read_grids(const torch::Tensor& grid, const torch::Tensor& pixels, int64_t merge) {
  check(grid.dim() == 2 && grid.size(1) == 3, "image_grid_thw must have three columns; it is ", grid.sizes());
  const auto table = grid.to(at::kCPU, at::kLong).contiguous();
  std::vector<PatchGrid> out;
  int64_t patches = 0;
  for (int64_t i = 0; i < table.size(0); ++i) {
    const auto* row = table.data_ptr<int64_t>() + 3 * i;
    check(row[0] > 0 && row[1] > 0 && row[2] > 0 && row[1] % merge == 0 && row[2] % merge == 0, "image_grid_thw row ",
          i, " (", row[0], ", ", row[1], ", ", row[2], ") is no multiple of blocks of ", merge, " x ", merge);
    out.push_back({row[0], row[1], row[2]});
    patches += row[0] * row[1] * row[2];
  }
  check(patches == pixels.size(0), "pixel_values has ", pixels.size(0), " patches, but image_grid_thw adds up to ",
        patches);
  return out;
}

// Angles of every patch, [N, d / 2]: half of the pairs turn with the row, half with the column.
torch::Tensor patch_angles(const std::vector<PatchGrid>& grids, int64_t merge, int64_t head_dim, double theta) {
  const int64_t pairs = head_dim / 4;
  const auto speed = (at::arange(pairs, at::kDouble) * (-std::log(theta) / static_cast<double>(pairs))).exp();
  std::vector<torch::Tensor> out;
  for (const auto& [frames, height, width] : grids) {
    const auto blocks = [&, h = height, w = width](const torch::Tensor& place) {  // [h, w] -> in order of the blocks
      return place.expand({h, w}).reshape({h / merge, merge, w / merge, merge}).transpose(1, 2).reshape({-1, 1});
    };
    const auto row = blocks(at::arange(height, at::kDouble).view({-1, 1}));
    const auto column = blocks(at::arange(width, at::kDouble).view({1, -1}));
    out.push_back(at::cat({row * speed, column * speed}, 1).repeat({frames, 1}));
  }
  return at::cat(out, 0);
}

torch::Tensor index_of(const std::vector<int64_t>& values, at::Device device) {
  return torch::tensor(values, at::kLong).to(device);
}

}  // namespace

Segments make_segments(const std::vector<int64_t>& lengths, at::Device device) {
  std::map<int64_t, std::vector<int64_t>> groups;  // positions by the length of their segment
  int64_t start = 0;
  for (const int64_t length : lengths) {
    auto& places = groups[length];
    for (int64_t i = 0; i < length; ++i) places.push_back(start + i);
    start += length;
  }
  Segments out;
  if (groups.size() == 1) {
    out.groups.push_back({groups.begin()->first, {}});
    return out;
  }
  std::vector<int64_t> back(static_cast<size_t>(start));
  int64_t at = 0;
  for (const auto& [length, places] : groups) {
    for (const int64_t place : places) back[static_cast<size_t>(place)] = at++;
    out.groups.push_back({length, index_of(places, device)});
  }
  out.back = index_of(back, device);
  return out;
}

torch::Tensor attend_within(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const Segments& segments) {
  const int64_t heads = q.size(1), width = q.size(3);
  std::vector<torch::Tensor> out;
  for (const auto& group : segments.groups) {
    const auto cut = [&](const torch::Tensor& x) {  // [count, heads, length, d]
      const auto rows = x.squeeze(0).transpose(0, 1);
      return (group.index.defined() ? rows.index_select(0, group.index) : rows)
          .reshape({-1, group.length, heads, width})
          .transpose(1, 2);
    };
    out.push_back(join_heads(attend_all(cut(q), cut(k), cut(v))).view({-1, heads * width}));
  }
  if (out.size() == 1) return out[0].unsqueeze(0);
  return at::cat(out, 0).index_select(0, segments.back).unsqueeze(0);
}

WindowOrder window_order(const std::vector<PatchGrid>& grids, int64_t merge, int64_t window) {
  WindowOrder out;
  int64_t first = 0;  // block of the frame
  for (const auto& [frames, patch_rows, patch_columns] : grids) {
    const int64_t rows = patch_rows / merge, columns = patch_columns / merge;
    for (int64_t frame = 0; frame < frames; ++frame) {
      for (int64_t top = 0; top < rows; top += window)
        for (int64_t left = 0; left < columns; left += window) {
          const int64_t bottom = std::min(rows, top + window), right = std::min(columns, left + window);
          for (int64_t row = top; row < bottom; ++row)
            for (int64_t column = left; column < right; ++column) out.order.push_back(first + row * columns + column);
          out.lengths.push_back((bottom - top) * (right - left));
        }
      first += rows * columns;
    }
  }
  return out;
}

QwenVit::QwenVit(const nlohmann::json& json, Weights weights) {
  const auto vision = ModelConfig(json, "config.json").part("vision_config");
  config = read_config(vision);
  const int64_t depth = vision.count("depth", 32), joined = config.width * config.merge * config.merge;
  whole.resize(static_cast<size_t>(depth));
  for (const int64_t layer : vision.integers("fullatt_block_indexes", {7, 15, 23, 31}))
    if (layer >= 0 && layer < depth) whole[static_cast<size_t>(layer)] = true;
  patches.weight =
      weights
          .take("patch_embed.proj.weight", {config.width, config.channels, config.frames, config.patch, config.patch})
          .view({config.width, -1});
  for (int64_t i = 0; i < depth; ++i)
    layers.push_back(take_layer(weights.below("blocks." + std::to_string(i) + "."), config));
  merger_norm = weights.rms_norm("merger.ln_q", config.width, 1e-6);
  merger_in = weights.linear("merger.mlp.0", joined, joined, true);
  merger_out = weights.linear("merger.mlp.2", config.out, joined, true);
}

torch::Tensor QwenVit::run_layer(const QwenVisionLayer& l, const torch::Tensor& x, const RotaryTable& rotary,
                                 const Segments& segments, const Pass& pass) const {
  // Linears that may be adapted read rows, [N, width]: patches of many samples are no sequence.
  const auto qkv = l.qkv(l.attention_norm(x).squeeze(0), pass).unsqueeze(0).chunk(3, -1);  // [1, N, width] each
  const auto turn = [&](const torch::Tensor& part) {
    const auto heads = split_heads(part, config.heads).to(rotary.cosine.scalar_type());
    return rotate(heads, rotary).to(x.scalar_type());
  };
  const auto mixed = attend_within(turn(qkv[0]), turn(qkv[1]), split_heads(qkv[2], config.heads), segments);
  const auto sum = x + l.o(mixed.squeeze(0), pass).unsqueeze(0);
  const auto gate_up = together({&l.gate, &l.up}, l.mlp_norm(sum), pass);
  const auto inner = config.activation == Activation::silu ? gated_silu(gate_up[0], gate_up[1])
                                                           : activate(config.activation, gate_up[0]) * gate_up[1];
  return sum + l.down(inner, pass);
}

torch::Tensor QwenVit::operator()(const torch::Tensor& pixels, const torch::Tensor& grid, const Pass& given,
                                  torch::Tensor* states) const {
  const auto grids = read_grids(grid, pixels, config.merge);
  const int64_t count = pixels.size(0), block = config.merge * config.merge;
  const auto device = pixels.device();
  const auto windows = window_order(grids, config.merge, config.window);
  const auto order = index_of(windows.order, device);
  const auto reordered = [&](const torch::Tensor& rows) {  // [N, ...] by blocks
    return rows.reshape({count / block, block, -1}).index_select(0, order).view({1, count, -1});
  };
  std::vector<int64_t> window_lengths, frame_lengths;
  for (const int64_t blocks : windows.lengths) window_lengths.push_back(blocks * block);
  for (const auto& [frames, rows, columns] : grids) frame_lengths.insert(frame_lengths.end(), frames, rows * columns);
  const auto within_windows = make_segments(window_lengths, device),
             within_frames = make_segments(frame_lengths, device);

  // Turned in float32 at least: angles do not survive fewer bits.
  const auto type = at::promote_types(pixels.scalar_type(), at::kFloat);
  const auto angles =
      reordered(patch_angles(grids, config.merge, config.width / config.heads, config.theta).to(device));
  const auto rotary = rotary_table(angles.cos().to(type), angles.sin().to(type));

  auto pass = given;
  if (given.row_samples.defined()) pass.row_samples = reordered(given.row_samples).flatten();
  auto x = reordered(patches(pixels, pass));
  for (size_t i = 0; i < layers.size(); ++i)
    x = run_layer(layers[i], x, rotary, whole[i] ? within_frames : within_windows, pass);
  if (states) *states = x.squeeze(0);
  if (given.row_samples.defined()) pass.row_samples = pass.row_samples.slice(0, 0, count, block);
  const auto joined = merger_norm(x).view({count / block, -1});
  const auto merged = merger_out(at::gelu(merger_in(joined, pass)), pass);
  std::vector<int64_t> place(windows.order.size());
  for (size_t i = 0; i < place.size(); ++i) place[static_cast<size_t>(windows.order[i])] = static_cast<int64_t>(i);
  return merged.index_select(0, index_of(place, device));
}

std::vector<AdapterSite> QwenVit::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& l = layers[i];
    add_sites(out, cat(prefix, "blocks.", i, "."), static_cast<int64_t>(i),
              {{"attn.qkv", &l.qkv, SitePart::vision}, {"attn.proj", &l.o, SitePart::vision}});
  }
  return out;
}

bool QwenVit::adapted() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& l) { return any_adapted({&l.qkv, &l.o}); });
}

}  // namespace asr
