// A safetensors file written tensor by tensor, for checkpoints that do not fit into memory: names, types and shapes are
// said first, the data follows in the same order. Written atomically. Without a checksum, which would need the data
// before the header.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "io/safetensors.h"

namespace asr {

class SafetensorsStream {
 public:
  // Of `layout` the data is not read, only its size.
  SafetensorsStream(const std::string& path, const std::vector<TensorView>& layout,
                    const std::map<std::string, std::string>& metadata);

  void write(ByteSpan data);  // of the next tensor, all of it
  void commit();              // all tensors must have been written

 private:
  std::string path_;
  std::vector<size_t> sizes_;
  size_t next_ = 0;
  AtomicFile file_;
};

}  // namespace asr
