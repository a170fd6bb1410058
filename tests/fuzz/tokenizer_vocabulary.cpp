// Any bytes as vocab.json and, after a line of "=", merges.txt; then as a text.
#include <algorithm>

#include "tokenizer_use.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(text.find("\n=\n"), text.size());
  const auto merges = cut < text.size() ? text.substr(cut + 3) : "";
  use_tokenizer([&] { return asr::tokenizer_from_vocabulary(text.substr(0, cut), merges, "Qwen2Tokenizer", "fuzz"); },
                text);
  return 0;
}
