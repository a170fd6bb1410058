// Any bytes as a file of JSON records or a line of CSV: either an Error or objects.
#include <cstdlib>

#include "base/error.h"
#include "io/csv.h"
#include "io/json_records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    asr::read_json_records({data, size}, "fuzz", [](const asr::JsonRecord& record) {
      if (!record.value.is_object()) std::abort();
    });
  } catch (const asr::Error&) {
  }
  try {
    asr::split_csv_line({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const asr::Error&) {
  }
  return 0;
}
