// Any bytes as a tokenizer.json, then its own bytes as a text.
#include "tokenizer_use.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  use_tokenizer([&] { return asr::tokenizer_from_json(text, "fuzz"); }, text);
  return 0;
}
