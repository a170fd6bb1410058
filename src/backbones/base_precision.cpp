#include "backbones/base_precision.h"

#include "base/error.h"

namespace asr {
namespace {

bool of_language_model(SitePart part) {
  return part == SitePart::q || part == SitePart::k || part == SitePart::v || part == SitePart::o ||
         part == SitePart::gate || part == SitePart::up || part == SitePart::down;
}

bool takes(const Linear& linear, WeightFormat format) {
  const int64_t out = linear.weight.size(0), in = linear.weight.size(1);
  return format == WeightFormat::nf4 ? in % 64 == 0 : out % 16 == 0 && in % 16 == 0;
}

}  // namespace

void check_format(WeightFormat format, at::Device device) {
  // On a CPU the plain form serves, to see what float8 changes.
  if (format != WeightFormat::fp8 || device.is_cpu()) return;
  const auto missing = missing_for_fp8(fp8_facts(device));
  check(missing.empty(), missing);
}

int64_t keep_weights_in(Backbone& model, WeightFormat format) {
  if (format == WeightFormat::plain) return 0;
  check_format(format, model.device());
  int64_t taken = 0;
  for (const auto& site : model.all_sites()) {
    if (!of_language_model(site.part) || !takes(*site.linear, format)) continue;
    keep_in(*site.linear, format);
    ++taken;
  }
  check(taken > 0, "base_precision: no linear map of ", model.name(),
        " can be kept in that format (nf4: rows of a multiple of 64, fp8: sizes of multiples of 16); use plain");
  return taken;
}

}  // namespace asr
