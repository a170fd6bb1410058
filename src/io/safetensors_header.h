// The JSON header of a safetensors file, read in one pass over the parser's events: a header may name a million
// tensors, so that nothing done for one of them may look at the others.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace asr {

// Fills `metadata` and `tensors` of `out`, in the header's order; `data` is what follows the header. `out.path` goes
// into messages. Names are not yet known to be unique, nor the tensors to lie side by side.
void read_safetensors_header(std::string_view header, ByteSpan data, Safetensors& out);

// The header as it is written, with padding: of tensors in the order of their data.
std::string safetensors_header(const std::vector<const TensorView*>& tensors,
                               const std::map<std::string, std::string>& metadata, const std::string& path);

}  // namespace asr
