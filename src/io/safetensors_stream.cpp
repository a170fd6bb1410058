#include "io/safetensors_stream.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace asr {

using nlohmann::json;

SafetensorsStream::SafetensorsStream(const std::string& path, const std::vector<TensorView>& layout,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(path) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto& tensor : layout) {
    check(!header.contains(tensor.name), path, ": tensor '", tensor.name, "' is to be written twice");
    const uint64_t end = offset + tensor.data.size;
    header[tensor.name] = {
        {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
    sizes_.push_back(tensor.data.size);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(text.size() >> (8 * i));
  file_.write(length, 8);
  file_.write(text);
}

void SafetensorsStream::write(ByteSpan data) {
  check(next_ < sizes_.size() && data.size == sizes_[next_], path_, ": tensor ", next_, " does not have the size said");
  file_.write(data.data, data.size);
  ++next_;
}

void SafetensorsStream::commit() {
  check(next_ == sizes_.size(), path_, ": only ", next_, " of ", sizes_.size(), " tensors were written");
  file_.commit();
}

}  // namespace asr
