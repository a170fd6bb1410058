#include "data/probe.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "data/sample_copies.h"
#include "data/walk.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using Tensors = std::vector<torch::Tensor>;

void check_probe(const Probe& probe) {
  check(!probe.rows.empty(), "there is no sample to probe");
  check(probe.batch > 0, "a probe of ", probe.batch, " samples at a time");
  for (const int64_t row : probe.rows)
    check(row >= 0 && row < probe.set.size(), "there is no row ", row, " in ", probe.set.size(), " samples of ",
          probe.set.name);
}

ProbeLoss loss_of(const Probe& probe) {
  return probe.loss ? probe.loss : answer_loss(probe.model);
}

std::vector<int64_t> rows_of(const Probe& probe, Part part) {
  return {probe.rows.begin() + part.begin, probe.rows.begin() + part.end};
}

// The sum of what `find` returns for blocks of rows, added in the order of the blocks: in every round each process does
// one block, and all then add what each of them found, by rank. `find` returns tensors of the shapes of `sums`.
void sum_in_order(const Probe& probe, const std::string& label, int64_t block, Tensors& sums,
                  const std::function<Tensors(Part)>& find) {
  const auto& team = probe.team;
  const auto count = static_cast<int64_t>(probe.rows.size());
  each_block({label, count, block * team.size(), /*shared=*/false}, team, [&](Part round, Part) {
    const auto part_of_rank = [&](int64_t rank) {
      const int64_t begin = std::min(round.end, round.begin + rank * block);
      return Part{begin, std::min(round.end, begin + block)};
    };
    const auto mine = part_of_rank(team.rank());
    const auto found = mine.size() > 0 ? find(mine) : Tensors();
    for (int64_t rank = 0; rank < team.size(); ++rank) {
      if (part_of_rank(rank).size() == 0) break;
      for (size_t i = 0; i < sums.size(); ++i) {
        auto term = rank == team.rank() ? found[i] : torch::zeros_like(sums[i]);
        team.sum(term);
        sums[i] += term;
      }
    }
  });
}

// The weight that a linear map uses in a pass, in its place.
torch::Tensor& used_weight(Linear& linear, const Pass& pass) {
  check(!linear.few_bits.defined(), "gradients of whole weights need them in full: set base_precision=auto");
  for (size_t k = 0; k < linear.slots.size(); ++k)
    if ((pass.slots >> k & 1) && linear.slots[k].full_weight.defined()) return linear.slots[k].full_weight;
  return pass.slots != 0 && linear.merged.defined() ? linear.merged : linear.weight;
}

// Weights in full precision that take a gradient, in place of the frozen ones for as long as this lives.
class LooseWeights {
 public:
  LooseWeights(const std::vector<AdapterSite>& sites, Part part, const Pass& pass) {
    for (int64_t i = part.begin; i < part.end; ++i) {
      auto& place = used_weight(*sites[static_cast<size_t>(i)].linear, pass);
      places_.push_back(&place);
      frozen_.push_back(place);
      place = place.detach().to(at::promote_types(place.scalar_type(), at::kFloat)).requires_grad_();
      loose.push_back(place);
    }
  }
  ~LooseWeights() {
    for (size_t i = 0; i < places_.size(); ++i) *places_[i] = frozen_[i];
  }
  LooseWeights(const LooseWeights&) = delete;
  LooseWeights& operator=(const LooseWeights&) = delete;

  Tensors loose;

 private:
  std::vector<torch::Tensor*> places_;
  Tensors frozen_;
};

// Stretches of sites whose weights fit into `room` bytes together.
std::vector<Part> groups_of(const std::vector<AdapterSite>& sites, int64_t room) {
  std::vector<Part> out;
  int64_t held = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(sites.size()); ++i) {
    const int64_t bytes = sites[static_cast<size_t>(i)].linear->weight.numel() * 4;
    if (out.empty() || held + bytes > room) {
      out.push_back({i, i});
      held = 0;
    }
    out.back().end = i + 1;
    held += bytes;
  }
  return out;
}

}  // namespace

ProbeLoss answer_loss(const Backbone& model) {
  return [&model](const SampleBatch& batch, const Pass& pass) { return model.forward(batch.input, pass, Want{}).loss; };
}

Tensors weight_gradients(const Probe& probe, const std::vector<AdapterSite>& sites, int64_t room) {
  check_probe(probe);
  constexpr int64_t kBatches = 8;  // that one process adds up before the others hear of it
  const auto loss = loss_of(probe);
  const auto groups = groups_of(sites, room);
  Tensors out;
  for (size_t g = 0; g < groups.size(); ++g) {
    const LooseWeights weights(sites, groups[g], probe.pass);
    Tensors sums;
    for (const auto& weight : weights.loose) sums.push_back(torch::zeros_like(weight, at::kFloat).detach().cpu());
    const auto find = [&](Part block) {
      Tensors found;
      for (const auto& sum : sums) found.push_back(torch::zeros_like(sum));
      for (int64_t first = block.begin; first < block.end; first += probe.batch) {
        const Part part{first, std::min(block.end, first + probe.batch)};
        const auto gradient = gradients(loss(probe.set.rows(rows_of(probe, part)), probe.pass), weights.loose);
        for (size_t i = 0; i < found.size(); ++i)
          if (gradient[i].defined())
            found[i].add_(gradient[i].to(at::kCPU, at::kFloat), static_cast<double>(part.size()));
      }
      return found;
    };
    const auto label = cat("gradients of weights, part ", g + 1, " of ", groups.size());
    sum_in_order(probe, label, probe.batch * kBatches, sums, find);
    for (auto& sum : sums) out.push_back(sum / static_cast<double>(probe.rows.size()));
  }
  return out;
}

namespace {

// What `find` returns for blocks of rows, below each other.
torch::Tensor found_in_blocks(const Probe& probe, int64_t block,
                              const std::function<torch::Tensor(const SampleBatch&)>& find) {
  Tensors rows;
  const Walk walk{cat("gradients of samples of ", probe.set.name), static_cast<int64_t>(probe.rows.size()), block};
  each_block(walk, probe.team, [&](Part here, Part next) {
    const auto batch = probe.set.rows(rows_of(probe, here));
    if (next.size() > 0) probe.set.prefetch(rows_of(probe, next));
    rows.push_back(find(batch).cpu());
  });
  return probe.team.gather(rows.empty() ? at::empty({0}, at::kFloat) : at::cat(rows));
}

}  // namespace

torch::Tensor sample_gradients(const Probe& probe, const Tensors& parameters, const KeepGradients& keep) {
  check_probe(probe);
  check(!parameters.empty(), "there is no parameter to take gradients of");
  const auto loss = loss_of(probe);
  return found_in_blocks(probe, 1, [&](const SampleBatch& batch) {
    const auto gradient = gradients(loss(batch, probe.pass), parameters);
    Tensors flat;
    for (size_t i = 0; i < gradient.size(); ++i)
      flat.push_back((gradient[i].defined() ? gradient[i] : torch::zeros_like(parameters[i])).flatten().to(at::kFloat));
    const auto row = at::cat(flat).unsqueeze(0);
    return keep ? keep(row) : row;
  });
}

torch::Tensor sample_gradients_together(const Probe& probe, const std::vector<AdapterSite>& sites,
                                        const Tensors& parameters, const KeepGradients& keep) {
  if (!SampleCopies::fit(sites, parameters)) return sample_gradients(probe, parameters, keep);
  check_probe(probe);
  check(!parameters.empty(), "there is no parameter to take gradients of");
  check(static_cast<bool>(probe.loss), "gradients of samples together need the sum of their losses");
  return found_in_blocks(probe, probe.batch, [&](const SampleBatch& batch) {
    const SampleCopies copies(sites, parameters, batch.size());
    auto pass = probe.pass;
    pass.given = &copies.given();
    const auto rows = copies.gradients_of(probe.loss(batch, pass));
    return keep ? keep(rows) : rows;
  });
}

namespace {

// Adds up x^T x of the sites it knows.
class MomentSums final : public InputObserver {
 public:
  explicit MomentSums(const std::vector<AdapterSite>& sites) {
    for (size_t i = 0; i < sites.size(); ++i) numbers_[sites[i].linear] = i;
  }
  void see(const Linear& linear, const torch::Tensor& x) override {
    const auto place = numbers_.find(&linear);
    if (place == numbers_.end()) return;
    const auto flat = x.detach().reshape({-1, x.size(-1)}).to(at::kDouble);
    sums[place->second] += flat.t().mm(flat).cpu();
    counts[static_cast<int64_t>(place->second)] += flat.size(0);
  }
  Tensors sums;          // [in, in] a site, double
  torch::Tensor counts;  // [sites] double

 private:
  std::map<const Linear*, size_t> numbers_;
};

}  // namespace

std::vector<InputMoments> input_moments(const Probe& probe, const std::vector<AdapterSite>& sites) {
  check_probe(probe);
  at::NoGradGuard no_grad;
  constexpr int64_t kSamples = 16;  // that one process adds up before the others hear of them
  Tensors sums;
  for (const auto& site : sites) {
    const int64_t in = site.linear->weight.size(1);
    sums.push_back(torch::zeros({in, in}, at::kDouble));
  }
  sums.push_back(torch::zeros({static_cast<int64_t>(sites.size())}, at::kDouble));
  MomentSums observer(sites);
  auto pass = probe.pass;
  pass.observer = &observer;
  Want want;
  want.loss = false;
  want.pooled = true;  // all layers run, whatever else is wanted
  const auto find = [&](Part block) {
    observer.sums.clear();
    for (size_t i = 0; i < sites.size(); ++i) observer.sums.push_back(torch::zeros_like(sums[i]));
    observer.counts = torch::zeros_like(sums.back());
    for (int64_t i = block.begin; i < block.end; ++i)
      probe.model.forward(probe.set.rows(rows_of(probe, {i, i + 1})).input, pass, want);
    auto found = observer.sums;
    found.push_back(observer.counts);
    return found;
  };
  sum_in_order(probe, cat("inputs of layers on ", probe.set.name), kSamples, sums, find);
  std::vector<InputMoments> out;
  for (size_t i = 0; i < sites.size(); ++i) {
    const double count = sums.back()[static_cast<int64_t>(i)].item<double>();
    check(count > 0, sites[i].name, ": no pass goes through it");
    out.push_back({sums[i] / count, static_cast<int64_t>(count)});
  }
  return out;
}

torch::Tensor blank_losses(const Probe& probe, const SampleLosses& losses) {
  check_probe(probe);
  at::NoGradGuard no_grad;
  Tensors found;
  const Walk walk{cat("losses without pictures of ", probe.set.name), static_cast<int64_t>(probe.rows.size()),
                  probe.batch};
  each_block(walk, probe.team, [&](Part here, Part) {
    std::vector<ComposedRow> blank;
    for (const int64_t row : rows_of(probe, here)) blank.push_back({kBlankPicture, row});
    found.push_back(losses(probe.set.composed(blank)).to(at::kDouble).cpu());
  });
  return probe.team.gather(found.empty() ? at::empty({0}, at::kDouble) : at::cat(found));
}

}  // namespace asr
