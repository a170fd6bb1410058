// Any bytes as vocab.json and, after a line of "=", merges.txt; then as a text: either an Error or tokens inside the
// text that decode.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "io/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(text.find("\n=\n"), text.size());
  const auto merges = cut < text.size() ? text.substr(cut + 3) : "";
  try {
    const auto tokenizer = asr::tokenizer_from_vocabulary(text.substr(0, cut), merges, "Qwen2Tokenizer", "fuzz");
    std::vector<int64_t> ids;
    for (const auto& token : tokenizer->encode(text)) {
      if (token.begin > token.end || token.end > text.size() || token.id >= tokenizer->size()) std::abort();
      ids.push_back(token.id);
    }
    tokenizer->decode(ids);
  } catch (const asr::Error&) {
  }
  return 0;
}
