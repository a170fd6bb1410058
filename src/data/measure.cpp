#include "data/measure.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "data/walk.h"
#include "spectral/descriptor.h"

namespace asr {

torch::Tensor row_weights(const Batch& batch, const Output& output) {
  if (output.row_weights.defined()) return output.row_weights;
  return token_weights_at(batch.functional.defined() ? batch.functional : batch.question, output.rows);
}

namespace {

enum class Wanted { moments, all };  // descriptors and, for raw maps, maps; or everything of Measured

// Measures the blocks of `rows` that are this process's, one after another. What `use` does not keep of a block is gone
// when the next one comes.
void measure_blocks(const Spectrometer& with, const MeasuredStage& of, const Team& team, Wanted wanted,
                    const std::function<void(const Measured&)>& use) {
  at::NoGradGuard no_grad;
  const auto& [set, rows, stage] = of;
  const bool all = wanted == Wanted::all;
  const auto& spectral = with.options.spectral;
  Want want;
  want.loss = false;
  want.pooled = all;
  want.tap_layers = with.tap_layers;
  std::unique_ptr<SpectralEncoder> encoder;
  check(!rows.empty(), "there is no sample to measure spectra on");
  const Walk over{cat("measure spectra of ", set.name), static_cast<int64_t>(rows.size()), set.pass_samples()};
  each_block(over, team, [&](Part here, Part) {
    const auto batch = set.rows({rows.begin() + here.begin, rows.begin() + here.end});
    check(batch.posterior.defined(), "spectra per skill need a posterior over skills");
    const auto routed = with.pass(batch);
    const auto out = with.model.forward(routed.seen(batch).input, routed.pass(), want);
    if (!encoder) encoder = std::make_unique<SpectralEncoder>(out.attention.size(4), out.attention.size(5), spectral);
    const auto weights = row_weights(batch.input, out);
    Measured m;
    m.descriptor = encoder->descriptor(out.attention, weights).cpu();
    m.radial = radial_part(m.descriptor, spectral);
    m.angular = angular_part(m.descriptor, spectral);
    m.posterior = batch.posterior.cpu();
    if (all || with.options.asr.spectrum == Spectrum::raw) {
      const auto maps = encoder->maps(out.attention, weights);  // [B, J, H, W]
      m.map = maps.mean(1).cpu();
      if (all) m.entropy = attention_entropy(maps).cpu();
    }
    if (all) m.embedding = at::cat({out.image, out.text}, 1).cpu();
    if (all && with.heads) {
      const auto each = encoder->details(out.attention, weights).head_descriptor;
      m.heads = each.view({each.size(0), out.attention.size(1), out.attention.size(2), each.size(2)}).cpu();
    }
    use(m);
  });
}

// What every process has added, in each of them.
StageMoments gathered(const StageMoments& mine, const Options& options, const Team& team) {
  const auto state = mine.state();
  const std::string bytes(reinterpret_cast<const char*>(state.data()), state.size() * sizeof(int64_t));
  StageMoments out(options);
  for (const auto& part : team.gather_texts({bytes})) {
    std::vector<int64_t> numbers(part.size() / sizeof(int64_t));
    std::memcpy(numbers.data(), part.data(), numbers.size() * sizeof(int64_t));
    out.merge_state(numbers);
  }
  return out;
}

}  // namespace

Measured measure_spectra(const Spectrometer& with, const SampleSet& set, const std::vector<int64_t>& rows,
                         const Team& team) {
  std::vector<Measured> blocks;
  measure_blocks(with, {set, rows}, team, Wanted::all, [&](const Measured& block) { blocks.push_back(block); });
  Measured out;
  for (auto field : {&Measured::descriptor, &Measured::radial, &Measured::angular, &Measured::map, &Measured::entropy,
                     &Measured::embedding, &Measured::posterior, &Measured::heads}) {
    if (field == &Measured::heads && !with.heads) continue;
    std::vector<torch::Tensor> parts;
    for (const auto& block : blocks) parts.push_back(block.*field);
    out.*field = team.gather(parts.empty() ? at::empty({0}, at::kFloat) : at::cat(parts));
  }
  return out;
}

StageMoments stage_moments(const Spectrometer& with, const MeasuredStage& of, const Team& team) {
  StageMoments moments(with.options);
  measure_blocks(with, of, team, Wanted::moments,
                 [&](const Measured& m) { moments.add(m.descriptor, m.angular, m.posterior, m.map, of.stage - 1); });
  return team.size() == 1 ? moments : gathered(moments, with.options, team);
}

namespace {

torch::Tensor table_of(const std::vector<Prototype>& prototypes, std::vector<double> Prototype::*field) {
  std::vector<torch::Tensor> rows;
  for (const auto& p : prototypes) rows.push_back(torch::tensor(p.*field, at::kDouble));
  return rows.empty() ? torch::Tensor() : at::stack(rows);
}

void set_table(std::vector<Prototype>& prototypes, std::vector<double> Prototype::*field, const torch::Tensor& table) {
  if (!table.defined()) return;
  const auto flat = table.to(at::kCPU, at::kDouble).contiguous();
  check(flat.dim() == 2 && flat.size(0) == static_cast<int64_t>(prototypes.size()), "stored prototypes are damaged");
  for (size_t i = 0; i < prototypes.size(); ++i) {
    const double* row = flat.data_ptr<double>() + static_cast<int64_t>(i) * flat.size(1);
    (prototypes[i].*field).assign(row, row + flat.size(1));
  }
}

}  // namespace

void visit_memory(PrototypeMemory& memory, StateVisitor& visitor) {
  constexpr auto kind = StateKind::prototypes;
  std::vector<int64_t> keys, counts;
  for (const auto& p : memory.prototypes) {
    keys.push_back(p.skill);
    counts.push_back(p.count);
  }
  auto key = torch::tensor(keys, at::kLong), count = torch::tensor(counts, at::kLong);
  auto mean = table_of(memory.prototypes, &Prototype::mean),
       variance = table_of(memory.prototypes, &Prototype::variance);
  auto angular = table_of(memory.prototypes, &Prototype::angular), map = table_of(memory.prototypes, &Prototype::map);
  visitor.number("stages", kind, memory.stages);
  visitor.number("map_height", kind, memory.map_height);
  visitor.number("map_width", kind, memory.map_width);
  visitor.tensor("skill", kind, key);
  visitor.tensor("count", kind, count);
  visitor.tensor("mean", kind, mean);
  visitor.tensor("variance", kind, variance);
  visitor.tensor("angular", kind, angular);
  visitor.tensor("map", kind, map);
  check(key.numel() == count.numel(), "stored prototypes are damaged");
  memory.prototypes.resize(static_cast<size_t>(key.numel()));
  for (size_t i = 0; i < memory.prototypes.size(); ++i) {
    memory.prototypes[i].skill = key[static_cast<int64_t>(i)].item<int64_t>();
    memory.prototypes[i].count = count[static_cast<int64_t>(i)].item<int64_t>();
  }
  set_table(memory.prototypes, &Prototype::mean, mean);
  set_table(memory.prototypes, &Prototype::variance, variance);
  set_table(memory.prototypes, &Prototype::angular, angular);
  set_table(memory.prototypes, &Prototype::map, map);
}

}  // namespace asr
