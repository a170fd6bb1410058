// Every choice of the spectral method that the paper leaves open, as an option; docs/maths.md explains
// each and why the default preset `sound` departs from the text. Keys stand under `spectral.`, `asr.` and `memory.`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"

namespace asr {

enum class Preset { paper, reference, sound };
enum class EpsMode { add, clamp };
enum class Switch { no, yes };
enum class Frequency { raw, centered };
enum class BinEdge { left, right };
enum class Dc { keep, drop };
enum class BinStatistic { sum, mean };
enum class PeakDc { include, exclude };
enum class PeakPower { raw, fraction };
enum class FftNorm { backward, ortho };
enum class SecondMoment { std, variance };
enum class Heads { average, kept };
enum class Mahalanobis { sum, mean };
enum class Confidence { gradient, detached, one };
enum class UnseenSkills { skip, renormalize };
enum class KlForm { half, sum };
enum class FloorAt { update, use };

struct SpectralOptions {
  // From maps to descriptors. Files that disagree in one of these cannot be compared.
  int64_t radial_bins = 8;                    // K
  int64_t angular_bins = 8;                   // M
  double eps = 1e-8;                          // guards every division by a sum
  EpsMode eps_mode = EpsMode::add;            // sum + eps, or max(sum, eps)
  Switch token_norm = Switch::yes;            // each token's map sums to 1 before the mean over tokens
  Frequency frequency = Frequency::centered;  // signed frequencies, or [0, 1)
  BinEdge bin_edge = BinEdge::left;           // [a, b) or (a, b]
  Dc dc = Dc::drop;                           // (0, 0) in the histograms or not
  BinStatistic bin_statistic = BinStatistic::sum;
  PeakDc peak_dc = PeakDc::exclude;            // may (0, 0) be the peak
  PeakPower peak_power = PeakPower::fraction;  // of all power, or as it is
  FftNorm fft_norm = FftNorm::ortho;
  SecondMoment second_moment = SecondMoment::std;  // over layer-heads
  // Matched are mean and second moment over layer-heads, or the numbers of every layer-head, which then follow them.
  Heads heads = Heads::average;
  // From descriptors to the loss and the memory.
  Mahalanobis mahalanobis = Mahalanobis::mean;
  Confidence confidence = Confidence::detached;
  UnseenSkills unseen_skills = UnseenSkills::skip;
  KlForm kl = KlForm::half;
  double covariance_floor = 1e-6;
  FloorAt floor_at = FloorAt::update;
  double lambda_ang = 0.1;  // 0: no angular term
  double tau_mah = 1.0;
  double tau_skill = 0.2;
  double alpha = 0.9;  // decay of the memory; 0 keeps only the last stage

  void visit(OptionVisitor& visitor);
  int64_t head_dim() const { return radial_bins + 2 * angular_bins + 3; }  // D0
  int64_t dim() const { return 2 * head_dim(); }                           // D, of heads together
  // Whether a descriptor may have so many numbers: with heads kept it depends on how many there are.
  bool fits(int64_t numbers) const {
    const int64_t more = numbers - dim();
    return heads == Heads::average ? more == 0 : more > 0 && more % head_dim() == 0;
  }
};

std::string expected_numbers(
    const SpectralOptions& options);  // of a descriptor, for messages: "54", "54 and 27 a head"

enum class Spectrum { full, radial, angular, raw };
enum class Prototypes { skill, global, task, mean };
enum class SkillMode { soft, hard, oracle, rule };
enum class Weighting { confidence, one, fixed };
enum class AsrTarget { prototype, anchor, both };
enum class AnchorMetric { posterior, pooled, identity };
enum class AnchorOf { spectra, heads, maps, states, logits, projections, shuffled, phases, adapters };

// Ablations and design variants: what the regulariser matches, against what, and how strongly.
struct AsrOptions {
  double beta = 0.5;    // weight of the spectral loss; 0 also stops memory updates after the first stage
  double gamma = 0.05;  // weight of the geometry loss; 0 turns it off
  Spectrum spectrum = Spectrum::full;
  Prototypes prototypes = Prototypes::skill;
  SkillMode skill = SkillMode::soft;
  Weighting weighting = Weighting::confidence;
  double fixed_weight = 0.5;
  AsrTarget target = AsrTarget::prototype;
  double anchor_beta = 1;  // weight of the anchored loss; 0 turns it off
  AnchorMetric metric = AnchorMetric::posterior;
  AnchorOf anchor = AnchorOf::spectra;
  int64_t anchor_samples = 0;  // of a stage that are anchored; 0: all

  void visit(OptionVisitor& visitor);
  bool to_prototypes() const { return target != AsrTarget::anchor && beta > 0; }
  bool to_anchors() const { return target != AsrTarget::prototype && anchor_beta > 0; }
  bool holds_spectra() const { return to_prototypes() || to_anchors(); }
};

struct MemoryOptions {
  double shrinkage = 20;  // n0: samples that the pooled variance counts for; 0: none

  void visit(OptionVisitor& visitor);
};

// All of them, resolved from a preset, option files and --set in that order.
struct Options {
  SpectralOptions spectral;
  AsrOptions asr;
  MemoryOptions memory;

  OptionTable table();  // bound to this object
  nlohmann::json manifest() const { return Options(*this).table().manifest(); }
};

// The options of `base` with the preset among the assignments (`spectral.preset`; the last one counts) applied first,
// which sets only the keys that presets differ in, then every other assignment. Fails on unknown keys, bad values and
// contradictions.
Options resolve_options(const Options& base, const std::vector<Assignment>& assignments);
Options resolve_options(const std::string& preset, const std::vector<Assignment>& assignments);

// Names of the keys that define a descriptor; memories and stages must agree in them.
const std::vector<std::string>& descriptor_keys();

// Fails when prototypes made with `stored` cannot be used with `wanted`: other descriptors, another kind of prototype,
// or raw maps against spectra.
void check_compatible(const Options& stored, const Options& wanted, const std::string& path);

#define ASR_ENUM_NAMES(Enum, ...)                         \
  template <>                                             \
  struct EnumNames<Enum> {                                \
    static constexpr const char* names[] = {__VA_ARGS__}; \
  };
ASR_ENUM_NAMES(Preset, "paper", "reference", "sound")
ASR_ENUM_NAMES(EpsMode, "add", "clamp")
ASR_ENUM_NAMES(Switch, "no", "yes")
ASR_ENUM_NAMES(Frequency, "raw", "centered")
ASR_ENUM_NAMES(BinEdge, "left", "right")
ASR_ENUM_NAMES(Dc, "keep", "drop")
ASR_ENUM_NAMES(BinStatistic, "sum", "mean")
ASR_ENUM_NAMES(PeakDc, "include", "exclude")
ASR_ENUM_NAMES(PeakPower, "raw", "fraction")
ASR_ENUM_NAMES(FftNorm, "backward", "ortho")
ASR_ENUM_NAMES(SecondMoment, "std", "variance")
ASR_ENUM_NAMES(Heads, "average", "kept")
ASR_ENUM_NAMES(Mahalanobis, "sum", "mean")
ASR_ENUM_NAMES(Confidence, "gradient", "detached", "one")
ASR_ENUM_NAMES(UnseenSkills, "skip", "renormalize")
ASR_ENUM_NAMES(KlForm, "half", "sum")
ASR_ENUM_NAMES(FloorAt, "update", "use")
ASR_ENUM_NAMES(Spectrum, "full", "radial", "angular", "raw")
ASR_ENUM_NAMES(Prototypes, "skill", "global", "task", "mean")
ASR_ENUM_NAMES(SkillMode, "soft", "hard", "oracle", "rule")
ASR_ENUM_NAMES(Weighting, "confidence", "one", "fixed")
ASR_ENUM_NAMES(AsrTarget, "prototype", "anchor", "both")
ASR_ENUM_NAMES(AnchorMetric, "posterior", "pooled", "identity")
ASR_ENUM_NAMES(AnchorOf, "spectra", "heads", "maps", "states", "logits", "projections", "shuffled", "phases",
               "adapters")
#undef ASR_ENUM_NAMES

}  // namespace asr
