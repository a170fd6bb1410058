// Any bytes as an image file: either an Error or exactly the pixels that its size promises.
#include <cstdlib>

#include "base/error.h"
#include "io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A bound that keeps one run short; beyond it the decoders do the same, only longer.
  const asr::ImageLimits limits{1 << 20, 1 << 16};
  try {
    const auto image = asr::decode_image({data, size}, "fuzz", limits);
    if (image.height <= 0 || image.width <= 0) std::abort();
    if (image.rgb.size() != static_cast<size_t>(image.height * image.width) * 3) std::abort();
  } catch (const asr::Error&) {
  }
  return 0;
}
