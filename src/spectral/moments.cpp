#include "spectral/moments.h"

#include <algorithm>

#include "base/error.h"
#include "spectral/spectral_loss.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

void add_row(std::vector<ExactSum>& sums, const double* row, int64_t size, ExactSum::Of of) {
  if (sums.empty()) sums.assign(size, ExactSum(of));
  check(static_cast<int64_t>(sums.size()) == size, "stage rows have ", size, " entries after rows of ", sums.size());
  for (int64_t i = 0; i < size; ++i) sums[i].add(row[i]);
}

void merge_row(std::vector<ExactSum>& into, const std::vector<ExactSum>& from) {
  if (into.empty()) {
    into = from;
    return;
  }
  check(from.empty() || into.size() == from.size(), "moments of different sizes cannot be merged");
  for (size_t i = 0; i < from.size(); ++i) into[i].merge(from[i]);
}

std::vector<double> means(const std::vector<ExactSum>& sums, int64_t count) {
  std::vector<double> out;
  for (const auto& sum : sums) out.push_back(exact_mean(sum, count));
  return out;
}

// Lists of sums as integers: how many sums, then the limbs of each after their number.
void put_sums(std::vector<int64_t>& out, const std::vector<ExactSum>& sums) {
  out.push_back(static_cast<int64_t>(sums.size()));
  for (const auto& sum : sums) {
    const auto limbs = sum.state();
    out.push_back(static_cast<int64_t>(limbs.size()));
    out.insert(out.end(), limbs.begin(), limbs.end());
  }
}

class StateReader {
 public:
  explicit StateReader(const std::vector<int64_t>& state) : state_(state) {}
  bool done() const { return at_ == state_.size(); }

  int64_t number() {
    check(at_ < state_.size(), "moments of another process came in pieces");
    return state_[at_++];
  }

  std::vector<ExactSum> sums(ExactSum::Of of) {
    std::vector<ExactSum> out(length(), ExactSum(of));
    for (auto& sum : out) {
      const size_t limbs = length();
      const auto begin = state_.begin() + static_cast<ptrdiff_t>(at_);
      sum.restore({begin, begin + static_cast<ptrdiff_t>(limbs)});
      at_ += limbs;
    }
    return out;
  }

 private:
  // A number of things that are yet to come.
  size_t length() {
    const int64_t value = number();
    check(value >= 0 && static_cast<uint64_t>(value) <= state_.size() - at_,
          "moments of another process came in pieces");
    return static_cast<size_t>(value);
  }

  const std::vector<int64_t>& state_;
  size_t at_ = 0;
};

}  // namespace

std::vector<int64_t> StageMoments::keys_of(const double* posterior, int64_t skills, int64_t task) const {
  if (options_.asr.prototypes == Prototypes::global) return {0};
  if (options_.asr.prototypes == Prototypes::task) return {task};
  if (options_.asr.skill == SkillMode::hard) return {std::max_element(posterior, posterior + skills) - posterior};
  std::vector<int64_t> out;
  for (int64_t s = 0; s < skills; ++s)
    if (posterior[s] > options_.spectral.tau_skill) out.push_back(s);
  return out;
}

void StageMoments::add(const torch::Tensor& descriptor, const torch::Tensor& angular, const torch::Tensor& posterior,
                       const torch::Tensor& map, int64_t task) {
  const auto& s = options_.spectral;
  check(descriptor.dim() == 2 && s.fits(descriptor.size(1)), "stage descriptor has shape ",
        shape_text(descriptor.sizes()), "; expected [N, ", expected_numbers(s), "] for these options");
  const int64_t samples = descriptor.size(0), numbers = descriptor.size(1);
  check(angular.dim() == 2 && angular.size(0) == samples && angular.size(1) == s.angular_bins,
        "stage angular has shape ", shape_text(angular.sizes()), "; expected [", samples, ", ", s.angular_bins, "]");
  if (samples == 0) return;
  check_posterior(posterior, options_.asr.skill);
  check(posterior.size(0) == samples, "stage posterior has ", posterior.size(0), " rows for ", samples, " samples");
  const bool raw = options_.asr.spectrum == Spectrum::raw;
  check(!raw || (map.defined() && map.dim() == 3 && map.size(0) == samples),
        "asr.spectrum=raw needs the stage's maps [N, H, W], averaged over layer-heads");

  const auto flat = [](const torch::Tensor& tensor) { return tensor.detach().cpu().to(at::kDouble).contiguous(); };
  const auto phi = flat(descriptor), d = flat(angular), pi = flat(posterior), maps = raw ? flat(map) : torch::Tensor();
  check(phi.isfinite().all().item<bool>() && d.isfinite().all().item<bool>(), "the stage holds NaN or infinite values");
  check(d.ge(0).all().item<bool>() && d.sum(1).gt(0).all().item<bool>(),
        "stage angular spectra must be >= 0 and not all zero");
  check(!raw || (maps.numel() > 0 && maps.isfinite().all().item<bool>() && maps.ge(0).all().item<bool>() &&
                 maps.sum({1, 2}).gt(0).all().item<bool>()),
        "stage maps must be finite, >= 0 and not all zero");
  if (raw) {
    check(map_height == 0 || (map_height == maps.size(1) && map_width == maps.size(2)), "maps of ", maps.size(1), "x",
          maps.size(2), " cannot be averaged with maps of ", map_height, "x", map_width);
    map_height = maps.size(1);
    map_width = maps.size(2);
  }
  const int64_t skills = pi.size(1), cells = raw ? maps.size(1) * maps.size(2) : 0;
  for (int64_t i = 0; i < samples; ++i)
    for (int64_t key : keys_of(pi.data_ptr<double>() + i * skills, skills, task)) {
      Sums& sums = sums_[key];
      ++sums.count;
      add_row(sums.values, phi.data_ptr<double>() + i * numbers, numbers, ExactSum::Of::values);
      add_row(sums.squares, phi.data_ptr<double>() + i * numbers, numbers, ExactSum::Of::squares);
      add_row(sums.angular, d.data_ptr<double>() + i * s.angular_bins, s.angular_bins, ExactSum::Of::values);
      if (raw) add_row(sums.map, maps.data_ptr<double>() + i * cells, cells, ExactSum::Of::values);
    }
}

void StageMoments::merge(const StageMoments& other) {
  if (map_height == 0) {
    map_height = other.map_height;
    map_width = other.map_width;
  }
  for (const auto& [key, from] : other.sums_) {
    Sums& into = sums_[key];
    into.count += from.count;
    merge_row(into.values, from.values);
    merge_row(into.squares, from.squares);
    merge_row(into.angular, from.angular);
    merge_row(into.map, from.map);
  }
}

std::vector<int64_t> StageMoments::state() const {
  std::vector<int64_t> out = {map_height, map_width};
  for (const auto& [key, sums] : sums_) {
    out.push_back(key);
    out.push_back(sums.count);
    for (const auto* list : {&sums.values, &sums.squares, &sums.angular, &sums.map}) put_sums(out, *list);
  }
  return out;
}

void StageMoments::merge_state(const std::vector<int64_t>& state) {
  StateReader in(state);
  StageMoments other(options_);
  other.map_height = in.number();
  other.map_width = in.number();
  while (!in.done()) {
    Sums& sums = other.sums_[in.number()];
    sums.count = in.number();
    sums.values = in.sums(ExactSum::Of::values);
    sums.squares = in.sums(ExactSum::Of::squares);
    sums.angular = in.sums(ExactSum::Of::values);
    sums.map = in.sums(ExactSum::Of::values);
  }
  merge(other);
}

std::map<int64_t, SkillMoments> StageMoments::result() const {
  std::map<int64_t, SkillMoments> out;
  for (const auto& [key, sums] : sums_) {
    SkillMoments& moments = out[key];
    moments.count = sums.count;
    moments.mean = means(sums.values, sums.count);
    moments.angular = means(sums.angular, sums.count);
    moments.map = means(sums.map, sums.count);
    for (size_t i = 0; i < sums.values.size(); ++i)
      moments.variance.push_back(exact_variance(sums.values[i], sums.squares[i], sums.count));
  }
  return out;
}

}  // namespace asr
