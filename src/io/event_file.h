// TensorBoard's event files, by hand: a file is a row of records (length, check sum of it, bytes, check sum of those),
// and each record's bytes are an Event message in protobuf's wire format. Scalars are all that is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace asr {

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(const void* data, size_t size);

struct EventScalar {
  std::string tag;  // "train/loss": the part before the slash groups charts
  double value = 0;
};

// The first record of a file.
std::string event_file_start(double wall_time);
// A record of scalars at one step; the time in seconds since 1970.
std::string event_record(double wall_time, int64_t step, const std::vector<EventScalar>& scalars);

}  // namespace asr
