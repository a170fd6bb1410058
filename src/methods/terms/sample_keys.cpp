#include "methods/terms/sample_keys.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/checksums.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "data/measure.h"
#include "data/walk.h"

namespace asr {
namespace {

constexpr uint64_t kProjectionSeed = 0x4b455953;
constexpr int64_t kThumbnailSide = 8, kThumbnailNumbers = 3 * kThumbnailSide * kThumbnailSide;
constexpr int64_t kNarrowestHead = 8;   // numbers; no model has heads that are narrower
constexpr int64_t kWordBuckets = 1024;  // of word counts, where the vocabulary is larger
const std::vector<std::string> kKeyParts = {"states", "late", "tokens", "spectra", "thumbnail"};

// [width, dimension], entries of variance 1 / dimension, so that lengths stay on average. The same on every machine.
torch::Tensor gaussian_projection(const std::string& part, int64_t width, int64_t dimension) {
  auto out = at::empty({width, dimension}, at::kDouble);
  auto* value = out.data_ptr<double>();
  Random random(
      {kProjectionSeed, std::stoull(sha256_of(part).substr(0, 15), nullptr, 16), uint64_t(width), uint64_t(dimension)});
  const double scale = 1 / std::sqrt(static_cast<double>(dimension));
  constexpr double kTurn = 6.283185307179586;
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double length = std::sqrt(-2 * std::log(1 - random.uniform()));
    value[i] = scale * length * std::cos(kTurn * random.uniform());
  }
  return out.to(at::kFloat);
}

// How often each word of the question stands in it, words of large vocabularies in buckets: [B, buckets].
torch::Tensor word_counts(const Batch& batch, int64_t vocabulary) {
  const int64_t buckets = std::min(vocabulary, kWordBuckets);
  const auto ids = batch.ids.cpu().contiguous(), asked = batch.question.cpu().contiguous();
  auto out = at::zeros({ids.size(0), buckets}, at::kFloat);
  for (int64_t b = 0; b < ids.size(0); ++b)
    for (int64_t t = 0; t < ids.size(1); ++t) {
      if (!asked.data_ptr<bool>()[b * ids.size(1) + t]) continue;
      const auto id = static_cast<uint64_t>(ids.data_ptr<int64_t>()[b * ids.size(1) + t]);
      const uint64_t bucket = vocabulary > kWordBuckets ? Random::mix(id) % uint64_t(kWordBuckets) : id;
      out.data_ptr<float>()[b * buckets + static_cast<int64_t>(bucket)] += 1;
    }
  return out;
}

}  // namespace

void KeyChoice::visit(OptionVisitor& visitor) {
  visitor("keys", parts, "what a sample is routed by: states, late, tokens, spectra, thumbnail, or several of them");
  visitor("further", further,
          "parts that answering looks at too, from the stage on that shows that route.keys do not tell stages apart");
  visitor("layer", layer, 1, 1000, "of the language model, after which states are taken (keys: states)");
  visitor("dimension", dimension, 1, 65536, "numbers of a part of the key; a wider one is projected at random");
  visitor("parts", sides, "sides of a sample that its key may see; spectra are of both");
  visitor("heads", heads,
          "of spectra: mean and deviation over heads, or every head's own, with a covariance a head (keys: spectra)");
  visitor("tap_layers", tap_layers, 1, 1000, "last layers whose attention is looked at (keys: spectra)");
}

void KeyChoice::check_parts() const {
  check(!parts.empty(), "route.keys: is empty; name at least one of ", join(kKeyParts, ", "));
  const auto all = whole().parts;
  for (const auto& part : all) {
    const auto* key = has(part) ? "route.keys" : "route.further";
    check(std::find(kKeyParts.begin(), kKeyParts.end(), part) != kKeyParts.end(), key, ": '", printable(part),
          "' is unknown", did_you_mean(part, kKeyParts));
    check(std::count(parts.begin(), parts.end(), part) < 2, "route.keys: names ", printable(part), " twice");
    check(std::count(all.begin(), all.end(), part) == 1, "route.further: names ", printable(part),
          has(part) ? ", which route.keys has" : " twice");
  }
  check(heads == Heads::average || further.empty(),
        "route.heads: kept, whose numbers stand last in a key, leaves no place for route.further; give one of both");
  check(heads == Heads::average || has("spectra"),
        "route.heads: kept is for spectra, and route.keys does not name them; add spectra or leave it away");
  check(sides != KeySides::picture || parts != std::vector<std::string>{"tokens"},
        "route.keys: tokens are of the text, and route.parts: picture leaves them out; nothing is left to route by");
}

KeyChoice KeyChoice::whole() const {
  auto out = *this;
  out.parts.insert(out.parts.end(), further.begin(), further.end());
  out.further.clear();
  return out;
}

bool KeyChoice::has(const std::string& part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

namespace {

// Of the layers that are tapped, all together.
int64_t most_heads(const KeyChoice& choice, int64_t width) {
  return choice.tap_layers * std::max<int64_t>(1, width / kNarrowestHead);
}

int64_t numbers_beside_heads(const KeyChoice& choice, int64_t width, int64_t descriptor) {
  const int64_t sides_seen = choice.sides == KeySides::both ? 2 : 1, most = choice.dimension;
  int64_t out = 0;
  for (const auto* part : {"states", "late"})
    if (choice.has(part)) out += sides_seen * std::min(width, most);
  if (choice.has("tokens")) out += std::min(width, most);
  if (choice.has("spectra") && !choice.keeps_heads()) out += std::min(descriptor, most);
  if (choice.has("thumbnail")) out += std::min(kThumbnailNumbers, most) + std::min(kWordBuckets, most);
  return out;
}

int64_t pairs_of(int64_t numbers) {
  return numbers * (numbers + 1) / 2;
}

}  // namespace

int64_t KeyChoice::most_numbers(int64_t width, int64_t descriptor) const {
  const int64_t each = descriptor / 2;  // a descriptor is mean and deviation over heads
  return numbers_beside_heads(*this, width, descriptor) + (keeps_heads() ? most_heads(*this, width) * each : 0);
}

int64_t KeyChoice::most_pairs(int64_t width, int64_t descriptor) const {
  const int64_t beside = pairs_of(numbers_beside_heads(*this, width, descriptor));
  return beside + (keeps_heads() ? most_heads(*this, width) * pairs_of(descriptor / 2) : 0);
}

SampleKeys::SampleKeys(const KeyChoice& choice, const SpectralOptions& spectral, int64_t depth)
    : choice_(choice), spectral_(spectral), depth_(depth) {
  choice_.check_parts();
  spectral_.heads = Heads::average;  // route.heads says what a key has of them
  check(depth > 0 || !choice_.has("late"),
        "route.keys: late states are of a language model, and this one has no layers");
}

torch::Tensor SampleKeys::projected(const std::string& name, const torch::Tensor& part) const {
  const auto wide = part.to(at::kFloat);
  if (wide.size(1) <= choice_.dimension) return wide.cpu();
  auto& matrix = projections_[name];
  if (!matrix.defined()) matrix = gaussian_projection(name, wide.size(1), choice_.dimension);
  if (matrix.device() != wide.device()) matrix = matrix.to(wide.device());
  return wide.mm(matrix).cpu();
}

void SampleKeys::add_thumbnail(const SampleBatch& batch, std::vector<torch::Tensor>& parts) const {
  const auto pixels = batch.pixels ? batch.pixels() : batch.input.pixels;
  check(pixels.defined() && pixels.dim() == 4 && pixels.size(0) == batch.size() && pixels.size(1) == 3,
        "route.keys: a thumbnail needs one picture a sample, as pixels [samples, 3, height, width]; choose other keys");
  const auto small = at::adaptive_avg_pool2d(pixels.to(at::kFloat), {kThumbnailSide, kThumbnailSide});
  parts.push_back(projected("thumbnail", small.flatten(1)));
}

torch::Tensor SampleKeys::of(const Backbone& model, const SampleBatch& samples) const {
  at::NoGradGuard no_grad;
  const auto& batch = samples.input;
  const bool picture = choice_.sides != KeySides::text, text = choice_.sides != KeySides::picture;
  Want want;
  want.loss = false;
  want.early_layer = choice_.has("states") ? choice_.layer : 0;
  want.early = choice_.has("tokens") && text;
  want.tap_layers = choice_.has("spectra") ? std::min(choice_.tap_layers, model.layers()) : 0;
  Output out;
  if (want.early_layer || want.early || want.tap_layers) out = model.forward(batch, Pass{0, nullptr}, want);
  Output late;
  if (choice_.has("late")) {
    Want last;
    last.loss = false;
    last.early_layer = depth_;
    late = model.forward(batch, Pass{0, nullptr}, last);
  }
  std::vector<torch::Tensor> parts, heads;
  for (const auto& part : choice_.parts) {
    if (part == "states" && picture) parts.push_back(projected("states.picture", out.early_image));
    if (part == "states" && text) parts.push_back(projected("states.text", out.early_text));
    if (part == "late" && picture) parts.push_back(projected("late.picture", late.early_image));
    if (part == "late" && text) parts.push_back(projected("late.text", late.early_text));
    if (part == "tokens" && text) parts.push_back(projected("tokens", out.text_input));
    if (part == "spectra") {
      if (!encoder_)
        encoder_ = std::make_unique<SpectralEncoder>(out.attention.size(4), out.attention.size(5), spectral_);
      const auto weights = row_weights(batch, out);
      if (choice_.keeps_heads())
        heads.push_back(encoder_->details(out.attention, weights).head_descriptor.flatten(1).to(at::kFloat).cpu());
      else
        parts.push_back(projected("spectra", encoder_->descriptor(out.attention, weights)));
    }
    if (part == "thumbnail" && picture) add_thumbnail(samples, parts);
    if (part == "thumbnail" && text)
      parts.push_back(projected("words", word_counts(batch, model.token_embedding().size(0))));
  }
  if (!heads.empty()) {
    head_numbers_ = heads[0].size(1);
    parts.push_back(heads[0]);
  }
  return at::cat(parts, 1);
}

KeyGroups SampleKeys::groups(int64_t dimension) const {
  if (head_numbers_ == 0) return {};
  KeyGroups out(static_cast<size_t>(dimension - head_numbers_), 0);
  const int64_t each = spectral_.head_dim();
  for (int64_t i = 0; i < head_numbers_; ++i) out.push_back(1 + i / each);
  return out;
}

torch::Tensor SampleKeys::of(const Backbone& model, const SampleSet& set, const std::vector<int64_t>& rows,
                             const Team& team) const {
  std::vector<torch::Tensor> blocks;
  const Walk over{cat("keys of ", set.name), static_cast<int64_t>(rows.size()), set.pass_samples()};
  each_block(over, team, [&](Part here, Part) {
    blocks.push_back(of(model, set.rows({rows.begin() + here.begin, rows.begin() + here.end})));
  });
  // A process without a block has made no key.
  if (choice_.keeps_heads())
    head_numbers_ = team.gather(torch::full({1}, head_numbers_, at::kLong)).max().item<int64_t>();
  return team.gather(blocks.empty() ? at::empty({0}, at::kFloat) : at::cat(blocks));
}

std::string SampleKeys::description(Backbone& model) const {
  const auto embedding = model.token_embedding();
  Sha256 weights;
  const auto add = [&](const torch::Tensor& rows) {
    const auto host = rows.detach().cpu().contiguous();
    weights.update(host.data_ptr(), host.nbytes());
  };
  add(embedding.narrow(0, 0, std::min<int64_t>(64, embedding.size(0))));
  const auto sites = model.all_sites();
  for (const auto& site : sites) add(site.linear->weight.narrow(0, 0, 1));
  nlohmann::json out = {{"base", model.name()},
                        {"weights", weights.hex().substr(0, 16)},
                        {"precision", sites.empty() ? "" : c10::toString(sites[0].linear->weight.scalar_type())},
                        {"keys", choice_.parts},
                        {"sides", enum_name(choice_.sides)},
                        {"dimension", choice_.dimension},
                        {"projection_seed", kProjectionSeed}};
  for (const auto& site : sites)
    if (site.linear->few_bits.data.defined()) out["format"] = enum_name(site.linear->few_bits.format);
  if (choice_.has("states")) out["layer"] = choice_.layer;
  if (choice_.has("spectra")) out["tap_layers"] = choice_.tap_layers;
  if (choice_.keeps_heads()) out["heads"] = enum_name(choice_.heads);
  return out.dump();
}

}  // namespace asr
