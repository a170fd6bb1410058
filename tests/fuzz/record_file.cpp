// Any bytes as a file of records, whose first byte chooses JSON document, JSON lines or CSV, plain or as gzip tells by
// content: either an Error, or records in order, each of them text that can be written again.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "io/record_file.h"

namespace {

// A file in memory under a name of the kind wanted: the reader takes paths, and chooses by their ending.
std::string file_of(const uint8_t* data, size_t size, const char* ending) {
  static const std::string folder = [] {
    std::string pattern = "/dev/shm/asr-fuzz-XXXXXX";
    if (!mkdtemp(pattern.data())) std::abort();
    return pattern;
  }();
  const auto path = folder + "/x" + ending;
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  close(file);
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const char* endings[] = {".json", ".jsonl", ".csv"};
  const auto path = file_of(data + 1, size - 1, endings[data[0] % 3]);
  for (const bool skip : {false, true}) {
    size_t count = 0, line = 0;
    const auto bad = [&](size_t at, size_t column, const std::string& reason) {
      if (at == 0 || column == 0 || reason.empty() || reason.find('\n') != std::string::npos) std::abort();
    };
    try {
      asr::read_records(
          path,
          [&](const asr::FileRecord& record) {
            if (record.number != ++count || record.line < line || record.column == 0) std::abort();
            line = record.line;
            record.value.dump();  // throws where a text is not UTF-8
          },
          skip ? asr::BadLine(bad) : asr::BadLine());
    } catch (const asr::Error& error) {
      if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
    }
  }
  return 0;
}
