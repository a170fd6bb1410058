#include "spectral/options.h"

#include "base/error.h"
#include "base/text.h"

namespace asr {

void SpectralOptions::visit(OptionVisitor& visitor) {
  visitor("radial_bins", radial_bins, 1, 256, "number K of radial bins on [0, 1]");
  visitor("angular_bins", angular_bins, 1, 256, "number M of angular bins on [-pi, pi)");
  visitor("eps", eps, 0, 1, "guards divisions by a sum; see eps_mode");
  visitor("eps_mode", eps_mode, "add: divide by sum + eps; clamp: by max(sum, eps)");
  visitor("token_norm", token_norm, "yes: every token's map is divided by its own sum first");
  visitor("frequency", frequency, "centered: signed frequencies; raw: u/H and v/W in [0, 1)");
  visitor("bin_edge", bin_edge, "left: bins are [a, b); right: (a, b]");
  visitor("dc", dc, "drop: frequency (0, 0) is left out of both histograms");
  visitor("bin_statistic", bin_statistic, "sum or mean of the power in a bin");
  visitor("peak_dc", peak_dc, "exclude: frequency (0, 0) cannot be the peak");
  visitor("peak_power", peak_power, "fraction: peak power over all power; raw: as it is");
  visitor("fft_norm", fft_norm, "ortho: transform divided by sqrt(H W); backward: no factor");
  visitor("second_moment", second_moment, "over layer-heads: standard deviation or variance");
  visitor(
      "heads", heads,
      "what is matched: mean and second moment over layer-heads (average), or every layer-head's own numbers (kept)");
  visitor("mahalanobis", mahalanobis, "sum or mean of the squared distance over dimensions");
  visitor("confidence", confidence, "weight exp(-d2/tau_mah) with gradient, detached, or always one");
  visitor("unseen_skills", unseen_skills, "posterior mass on skills without prototype: skip, or renormalize the rest");
  visitor("kl", kl, "half: mean of both divergences; sum: their sum");
  visitor("covariance_floor", covariance_floor, 0, 1e6, "smallest variance");
  visitor("floor_at", floor_at, "update: stage variances are floored before the moving average; use: only when read");
  visitor("lambda_ang", lambda_ang, 0, 1e6, "weight of the angular divergence; 0 turns it off");
  visitor("tau_mah", tau_mah, 1e-12, 1e12, "temperature of the confidence weight");
  visitor("tau_skill", tau_skill, 0, 1, "a sample counts for skills whose posterior exceeds this");
  visitor("alpha", alpha, 0, 1, "decay of the memory's moving average; 0 keeps only the last stage");
}

void AsrOptions::visit(OptionVisitor& visitor) {
  visitor("beta", beta, 0, 1e6, "weight of the spectral loss; 0: off, and the memory stays as after stage 1");
  visitor("gamma", gamma, 0, 1e6, "weight of the geometry loss; 0: off");
  visitor("spectrum", spectrum, "what is matched: the full descriptor, a part of it, or raw attention maps");
  visitor("prototypes", prototypes,
          "one per skill, one in all, one per finished task, or skill means with one shared variance");
  visitor("skill", skill,
          "posterior as given, all mass on its largest skill, one-hot labels (must be one-hot), or by the rules for "
          "questions");
  visitor("weighting", weighting, "confidence: as spectral.confidence says; one: 1; fixed: fixed_weight");
  visitor("fixed_weight", fixed_weight, 0, 1e6, "the weight of weighting=fixed");
  visitor("target", target,
          "where spectra are held: at stored prototypes, where the stage found each sample's, or both");
  visitor("anchor_beta", anchor_beta, 0, 1e6, "weight of the anchored loss; 0: off");
  visitor("metric", metric,
          "of the anchored distance: stored variances of the sample's skills, their mean, or one number for all");
  visitor("anchor", anchor,
          "what is anchored: spectra averaged over heads, those of every head, or a control (mean maps, pooled states, "
          "answer logits, random projections of the maps, spectra of other samples or of maps with random phases, the "
          "adapters themselves)");
  visitor("anchor_samples", anchor_samples, 0, 1000000000,
          "training samples a stage that are anchored, drawn at random; 0: all");
}

void MemoryOptions::visit(OptionVisitor& visitor) {
  visitor("shrinkage", shrinkage, 0, 1e9,
          "samples that the variance pooled over all skills counts for when a skill's own is read; 0: none");
}

namespace {

// Sets the keys in which presets differ; the others stay.
void apply_preset(Preset preset, Options& options) {
  auto& o = options.spectral;
  const bool paper = preset == Preset::paper, reference = preset == Preset::reference, sound = preset == Preset::sound;
  o.frequency = paper ? Frequency::raw : Frequency::centered;
  o.bin_edge = reference ? BinEdge::right : BinEdge::left;
  o.dc = sound ? Dc::drop : Dc::keep;
  o.bin_statistic = BinStatistic::sum;
  o.peak_dc = sound ? PeakDc::exclude : PeakDc::include;
  o.peak_power = paper ? PeakPower::raw : PeakPower::fraction;
  o.fft_norm = paper ? FftNorm::backward : FftNorm::ortho;
  o.token_norm = reference ? Switch::no : Switch::yes;
  o.second_moment = reference ? SecondMoment::variance : SecondMoment::std;
  o.eps_mode = reference ? EpsMode::clamp : EpsMode::add;
  o.mahalanobis = paper ? Mahalanobis::sum : Mahalanobis::mean;
  o.confidence = sound ? Confidence::detached : Confidence::gradient;
  o.unseen_skills = reference ? UnseenSkills::renormalize : UnseenSkills::skip;
  o.kl = KlForm::half;
  o.covariance_floor = sound ? 1e-6 : 1e-4;
  o.floor_at = FloorAt::update;
  options.memory.shrinkage = sound ? 20 : 0;
}

}  // namespace

OptionTable Options::table() {
  OptionTable out;
  out.add("spectral", spectral);
  out.add("asr", asr);
  out.add("memory", memory);
  return out;
}

std::string expected_numbers(const SpectralOptions& options) {
  const auto together = std::to_string(options.dim());
  return options.heads == Heads::average ? together : cat(together, " and ", options.head_dim(), " a head");
}

const std::vector<std::string>& descriptor_keys() {
  static const std::vector<std::string> keys = {
      "radial_bins", "angular_bins",  "eps",     "eps_mode",   "token_norm", "frequency",     "bin_edge",
      "dc",          "bin_statistic", "peak_dc", "peak_power", "fft_norm",   "second_moment", "heads"};
  return keys;
}

namespace {

void check_contradictions(const Options& options) {
  const auto& s = options.spectral;
  const auto& a = options.asr;
  check(s.floor_at == FloorAt::use || s.covariance_floor > 0,
        "spectral.covariance_floor=0 contradicts spectral.floor_at=update; use floor_at=use");
  check(s.alpha < 1, "spectral.alpha=1 would never learn from a new stage; use a value below 1");
  check(s.tau_skill < 1, "spectral.tau_skill=1 would leave every prototype empty; use a value below 1");
  check(s.heads == Heads::average || a.spectrum != Spectrum::raw,
        "spectral.heads=kept contradicts asr.spectrum=raw, which matches mean maps; use spectral.heads=average");
  check(a.prototypes != Prototypes::mean || a.spectrum != Spectrum::raw,
        "asr.prototypes=mean contradicts asr.spectrum=raw, which has no variances");
  check(a.target == AsrTarget::prototype || a.spectrum != Spectrum::raw, "asr.target=", enum_name(a.target),
        " contradicts asr.spectrum=raw, whose memory has no variances; use asr.target=prototype");
}

}  // namespace

Options resolve_options(const Options& base, const std::vector<Assignment>& assignments) {
  Options out = base;
  for (size_t i = assignments.size(); i-- > 0;) {
    if (assignments[i].key != "spectral.preset") continue;
    Preset preset = Preset::sound;
    OptionVisitor visitor("spectral");
    visitor("preset", preset, "");
    visitor.options()[0].set(assignments[i].value, assignments[i].origin);
    apply_preset(preset, out);
    break;
  }
  OptionTable table = out.table();
  for (const auto& assignment : assignments)
    if (assignment.key != "spectral.preset") table.set(assignment);
  check_contradictions(out);
  return out;
}

Options resolve_options(const std::string& preset, const std::vector<Assignment>& assignments) {
  std::vector<Assignment> all = {{"spectral.preset", preset, "--preset"}};
  all.insert(all.end(), assignments.begin(), assignments.end());
  return resolve_options(Options{}, all);
}

void check_compatible(const Options& stored, const Options& wanted, const std::string& path) {
  const auto before = stored.manifest(), after = wanted.manifest();
  for (const auto& key : descriptor_keys())
    check(before["spectral"][key] == after["spectral"][key], path, ": holds descriptors made with spectral.", key, "=",
          before["spectral"][key].dump(), "; they cannot be mixed with ", after["spectral"][key].dump());
  const auto kind = [](Prototypes p) {
    return p == Prototypes::mean ? Prototypes::skill : p;
  };  // `mean` only reads variances otherwise
  check(kind(stored.asr.prototypes) == kind(wanted.asr.prototypes), path,
        ": was built with asr.prototypes=", enum_name(stored.asr.prototypes), "; start a new memory for ",
        enum_name(wanted.asr.prototypes));
  check((stored.asr.spectrum == Spectrum::raw) == (wanted.asr.spectrum == Spectrum::raw), path,
        ": was built with asr.spectrum=", enum_name(stored.asr.spectrum), "; start a new memory for ",
        enum_name(wanted.asr.spectrum));
}

}  // namespace asr
