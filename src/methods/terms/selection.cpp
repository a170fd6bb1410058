#include "methods/terms/selection.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/random.h"

namespace asr {
namespace {

constexpr int64_t kBins = 50;
constexpr double kTail = 0.05;
constexpr int64_t kProjectionRows = 4096;  // of the sign matrix that are widened at a time
constexpr int64_t kMostBuckets = 16;       // for each number of a projection: they add a sixteenth to its variance

// Rows with their squared lengths, which do not change while centres move.
struct MeasuredRows {
  torch::Tensor rows, squares;  // [n, D], [n, 1]

  explicit MeasuredRows(const torch::Tensor& all) : rows(all), squares(all.square().sum(1, true)) {}
  MeasuredRows(const torch::Tensor& some, const torch::Tensor& their) : rows(some), squares(their) {}
  MeasuredRows at(const torch::Tensor& index) const {
    return {rows.index_select(0, index), squares.index_select(0, index)};
  }
  // |x - c|^2 of rows and centres, [n, k].
  torch::Tensor distances(const torch::Tensor& centres) const {
    return (squares - 2 * rows.mm(centres.t()) + centres.square().sum(1).unsqueeze(0)).clamp_min(0);
  }
};

// Rows, each drawn by its squared distance to the nearest one drawn before; equally likely where all are at 0.
torch::Tensor first_centres(const MeasuredRows& all, int64_t count, Random& random) {
  const auto& vectors = all.rows;
  std::vector<int64_t> drawn = {random.below(static_cast<uint32_t>(vectors.size(0)))};
  auto nearest = all.distances(vectors.narrow(0, drawn[0], 1)).flatten();
  while (static_cast<int64_t>(drawn.size()) < count) {
    const auto sums = nearest.cpu().to(at::kDouble).cumsum(0).contiguous();
    const double *begin = sums.data_ptr<double>(), *end = begin + sums.numel();
    const double total = *(end - 1);
    const int64_t place = std::upper_bound(begin, end, random.uniform() * total) - begin;
    const int64_t row =
        total > 0 ? std::min(place, vectors.size(0) - 1) : random.below(static_cast<uint32_t>(vectors.size(0)));
    drawn.push_back(row);
    nearest = at::minimum(nearest, all.distances(vectors.narrow(0, row, 1)).flatten());
  }
  return vectors.index_select(0, torch::tensor(drawn, at::kLong).to(vectors.device())).clone();
}

// +1 or -1 each, 64 of every number drawn.
torch::Tensor random_signs(at::IntArrayRef shape, Random random) {
  auto out = at::empty(shape, at::kChar);
  auto* sign = out.data_ptr<int8_t>();
  const int64_t count = out.numel();
  uint64_t bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits = i % 64 == 0 ? random.next() : bits >> 1;
    sign[i] = bits & 1 ? 1 : -1;
  }
  return out;
}

// 0 .. numbers - 1, every stretch of `size` shuffled by itself.
torch::Tensor shuffled_stretches(int64_t numbers, int64_t size, Random random) {
  auto out = at::arange(numbers, at::kLong);
  for (int64_t begin = 0; begin < numbers; begin += size) {
    const auto length = static_cast<size_t>(std::min(size, numbers - begin));
    std::span<int64_t> stretch(out.data_ptr<int64_t>() + begin, length);
    random.shuffle(stretch);
  }
  return out;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

std::vector<int64_t> clusters_of(const torch::Tensor& vectors, const KMeans& how) {
  check(vectors.dim() == 2 && vectors.size(0) > 0 && how.clusters > 0, "there is nothing to cluster");
  const MeasuredRows all(vectors.to(at::kFloat));
  const int64_t count = vectors.size(0), batch = std::min(how.batch, count);
  Random random({how.key, 0x6b3a});
  auto centres = first_centres(all, std::min(how.clusters, count), random);
  const auto numbers = at::arange(centres.size(0), at::device(vectors.device()).dtype(at::kLong)).unsqueeze(1);
  auto given = at::zeros({centres.size(0), 1}, centres.options());
  const auto drawn = [&] {
    std::vector<int64_t> index(static_cast<size_t>(batch));
    for (auto& row : index) row = random.below(static_cast<uint32_t>(count));
    return all.at(torch::tensor(index, at::kLong).to(vectors.device()));
  };
  for (int64_t round = 0; round < how.rounds; ++round) {
    const auto taken = batch < count ? drawn() : all;
    // A product adds rows up in one order on every device, so that all processes find the same centres.
    const auto owned = taken.distances(centres).argmin(1).unsqueeze(0).eq(numbers).to(at::kFloat);  // [k, batch]
    const auto fresh = owned.sum(1, true);
    centres = (centres * given + owned.mm(taken.rows)) / (given + fresh).clamp_min(1) + centres * (given + fresh).eq(0);
    given += fresh;
  }
  const auto owner = all.distances(centres).argmin(1).cpu().contiguous();
  return {owner.data_ptr<int64_t>(), owner.data_ptr<int64_t>() + count};
}

std::vector<std::vector<int64_t>> rows_by_cluster(const std::vector<int64_t>& cluster) {
  std::vector<std::vector<int64_t>> out;
  for (size_t row = 0; row < cluster.size(); ++row) {
    const auto number = static_cast<size_t>(cluster[row]);
    if (number >= out.size()) out.resize(number + 1);
    out[number].push_back(static_cast<int64_t>(row));
  }
  return out;
}

double score_entropy(const std::vector<double>& values, ScoreHistogram histogram) {
  if (values.empty()) return 0;
  const double mean = mean_of(values), deviation = deviation_of(values);
  if (!(deviation > 1e-12 * std::max(1.0, std::abs(mean)))) return 0;
  const double reach = histogram == ScoreHistogram::sound ? 4 : 4 * deviation;
  std::vector<double> counts(kBins, 0.0);
  double all = 0;
  for (const double value : values) {
    const double place = ((value - mean) / deviation + reach) / (2 * reach) * kBins;
    if (place < 0 || place > kBins) continue;
    counts[std::min<size_t>(static_cast<size_t>(place), kBins - 1)] += 1;
    all += 1;
  }
  double out = 0;
  for (const double count : counts)
    if (count > 0) out -= count / all * std::log(count / all);
  return out;
}

torch::Tensor RowOwners::means(const torch::Tensor& values) const {
  const auto each = values.to(at::kDouble);
  const auto sums = at::zeros({samples}, each.options()).index_add(0, sample, each);
  const auto counts = at::zeros({samples}, each.options()).index_add(0, sample, at::ones_like(each));
  return sums / counts.clamp_min(1);
}

torch::Tensor log_perplexities(const torch::Tensor& losses, const RowOwners& owners, PerplexityForm form) {
  if (form == PerplexityForm::sound) return owners.means(losses);
  return owners.means(losses.to(at::kDouble).exp()).log();
}

torch::Tensor uncertainty(const torch::Tensor& logits, const torch::Tensor& targets, const RowOwners& owners) {
  const auto log_p = logits.to(at::kFloat).log_softmax(-1), p = log_p.exp();
  const auto right = targets.dim() == 2 ? targets : at::one_hot(targets, p.size(-1)).to(at::kFloat);
  return at::stack({owners.means((right - p).norm(2, -1)), owners.means(-(p * log_p).sum(-1))}, 1);
}

std::vector<int64_t> shared_out(int64_t total, const std::vector<int64_t>& sizes, const std::vector<double>& weights) {
  check(sizes.size() == weights.size(), "a budget for ", sizes.size(), " parts has ", weights.size(), " weights");
  std::vector<int64_t> out(sizes.size(), 0);
  std::vector<size_t> open;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 0) open.push_back(i);
  int64_t left = std::min(total, std::accumulate(sizes.begin(), sizes.end(), int64_t(0)));
  std::vector<double> share(sizes.size(), 0.0);
  const auto find_shares = [&] {
    double all = 0;
    for (const size_t i : open) all += weights[i];
    for (const size_t i : open)
      share[i] = static_cast<double>(left) * (all > 0 ? weights[i] / all : 1 / static_cast<double>(open.size()));
  };
  find_shares();
  while (true) {
    const auto full = std::stable_partition(open.begin(), open.end(),
                                            [&](size_t i) { return static_cast<double>(sizes[i]) > share[i] + 1e-9; });
    if (full == open.end()) break;
    for (auto i = full; i != open.end(); ++i) {
      out[*i] = sizes[*i];
      left -= sizes[*i];
    }
    open.erase(full, open.end());
    find_shares();
  }
  for (const size_t i : open) {
    out[i] = static_cast<int64_t>(share[i] + 1e-9);
    left -= out[i];
  }
  // What rounding left over, one each, to the largest remainders.
  std::stable_sort(open.begin(), open.end(), [&](size_t a, size_t b) {
    return share[a] - static_cast<double>(out[a]) > share[b] - static_cast<double>(out[b]);
  });
  for (size_t i = 0; i < static_cast<size_t>(left); ++i) ++out[open[i]];
  return out;
}

std::vector<int64_t> covering_draw(const std::vector<double>& values, int64_t wanted, uint64_t key) {
  const auto count = static_cast<int64_t>(values.size());
  check(wanted >= 0 && wanted <= count, "a draw of ", wanted, " out of ", count, " samples");
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  const int64_t cut = std::min(static_cast<int64_t>(kTail * static_cast<double>(count)), (count - wanted) / 2);
  order = {order.begin() + cut, order.end() - cut};
  if (wanted == 0) return {};
  const double high = values[static_cast<size_t>(order.front())], low = values[static_cast<size_t>(order.back())];
  std::vector<std::vector<int64_t>> bins(kBins);
  for (const int64_t row : order) {
    const double place = high > low ? (high - values[static_cast<size_t>(row)]) / (high - low) * kBins : 0;
    bins[std::min<size_t>(static_cast<size_t>(place), kBins - 1)].push_back(row);
  }
  for (size_t b = 0; b < bins.size(); ++b) Random({key, 0x5c05, b}).shuffle(bins[b]);
  std::vector<int64_t> out;
  int64_t owed = 0;
  const auto take = [&](std::vector<int64_t>& bin) {
    for (; owed > 0 && !bin.empty(); --owed) {
      out.push_back(bin.back());
      bin.pop_back();
    }
  };
  for (int64_t b = 0; b < kBins; ++b) {
    owed += (b + 1) * wanted / kBins - b * wanted / kBins;
    take(bins[static_cast<size_t>(b)]);
  }
  for (auto& bin : bins) take(bin);  // where the last ones had too few
  std::sort(out.begin(), out.end());
  return out;
}

torch::Tensor nearest_before(const torch::Tensor& vectors) {
  const auto rows = vectors.to(at::kFloat);
  const auto unit = rows / rows.norm(2, 1, true).clamp_min(1e-12);
  auto out = at::full({rows.size(0)}, -2.0, at::kDouble);
  constexpr int64_t kBlock = 512;
  for (int64_t begin = 0; begin < rows.size(0); begin += kBlock) {
    const int64_t size = std::min(kBlock, rows.size(0) - begin);
    const auto cosines = unit.narrow(0, begin, size).mm(unit.narrow(0, 0, begin + size).t());
    const auto later = at::ones_like(cosines).triu(begin).gt(0);
    out.narrow(0, begin, size).copy_(cosines.masked_fill(later, -2).amax(1).cpu());
  }
  return out;
}

std::vector<int64_t> least_alike(const torch::Tensor& vectors, const std::vector<std::vector<int64_t>>& clusters,
                                 int64_t wanted) {
  std::vector<int64_t> sizes, out;
  for (const auto& rows : clusters) sizes.push_back(static_cast<int64_t>(rows.size()));
  const auto budgets = shared_out(wanted, sizes, std::vector<double>(sizes.size(), 1.0));
  for (size_t c = 0; c < clusters.size(); ++c) {
    if (budgets[c] == 0) continue;
    const auto index = torch::tensor(clusters[c], at::kLong).to(vectors.device());
    const auto order = std::get<1>(at::sort(nearest_before(vectors.index_select(0, index)), /*stable=*/true, 0, false));
    for (int64_t i = 0; i < budgets[c]; ++i) out.push_back(clusters[c][static_cast<size_t>(order[i].item<int64_t>())]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

SignProjection::SignProjection(int64_t numbers, int64_t dimension, uint64_t key, int64_t most) : dimension_(dimension) {
  int64_t rows = numbers;
  if (numbers > std::max(dimension, most / dimension)) {
    rows = buckets_ = std::clamp(most / dimension, dimension, kMostBuckets * dimension);
    const auto all = static_cast<uint64_t>(numbers), kept = static_cast<uint64_t>(buckets_);
    places_ = shuffled_stretches(numbers, buckets_, Random({key, 0x9ace, all, kept}));
    place_signs_ = random_signs({numbers}, Random({key, 0x51e5, all, kept}));
  }
  if (rows <= dimension) return;
  signs_ = random_signs({rows, dimension},
                        Random({key, 0x516e, static_cast<uint64_t>(rows), static_cast<uint64_t>(dimension)}));
  // To widen them for every row takes longer than the product does.
  constexpr int64_t kWidened = int64_t(1) << 28;
  if (signs_.numel() <= kWidened) signs_ = signs_.to(at::kFloat);
}

// Random signs keep inner products on average, whoever meets in a bucket: two numbers that meet count with the product
// of their signs, whose mean is 0. How far a sum is off depends on who meets. Places are shuffled, so that any two
// numbers meet with probability 1 / buckets at most: the inner product of unit vectors then has a variance of at most
// 2 / buckets, beside the matrix' 2 / dimension. By the remainder of its index alone (4096 inputs, 2^17 buckets) a
// number would meet those of the same input in other rows of A, in q's, k's and v's alike, and they are large together.
// Every bucket adds its numbers one after the other, so that a sample's sums are the same in any batch, on any device.
torch::Tensor SignProjection::summed(const torch::Tensor& x) {
  if (!places_.defined()) return x;
  if (places_.device() != x.device()) {
    places_ = places_.to(x.device());
    place_signs_ = place_signs_.to(x.device());
  }
  auto out = at::zeros({x.size(0), buckets_}, x.options());
  for (int64_t begin = 0; begin < places_.numel(); begin += buckets_) {
    const int64_t size = std::min(buckets_, places_.numel() - begin);
    const auto found = x.gather(1, places_.narrow(0, begin, size).expand({x.size(0), size}));
    out.narrow(1, 0, size).addcmul_(found, place_signs_.narrow(0, begin, size).to(x.scalar_type()));
  }
  return out;
}

torch::Tensor SignProjection::operator()(const torch::Tensor& x) {
  const auto given = summed(x);
  if (!signs_.defined()) return given;
  if (signs_.device() != x.device()) signs_ = signs_.to(x.device());
  auto out = at::zeros({x.size(0), dimension_}, x.options());
  for (int64_t begin = 0; begin < signs_.size(0); begin += kProjectionRows) {
    const int64_t size = std::min(kProjectionRows, signs_.size(0) - begin);
    out += given.narrow(1, begin, size).mm(signs_.narrow(0, begin, size).to(x.scalar_type()));
  }
  return out / std::sqrt(static_cast<double>(dimension_));
}

}  // namespace asr
