// The safetensors format: eight bytes of header length, a JSON header, then raw little-endian data.
// Everything in a file is untrusted: lengths, offsets, shapes and names are checked before use, and an
// error names the file and the tensor. Files that ASR writes carry a checksum over their whole content.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/mapped_file.h"

namespace asr {

enum class Dtype { Bool, U8, I8, F8_E4M3, F8_E5M2, F8_E8M0, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64, C64 };

const char* dtype_name(Dtype dtype);  // as the format spells it: "BF16"
size_t dtype_bytes(Dtype dtype);

// Where one tensor lies; `data` points into the mapped file.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  ByteSpan data;
};

// The content of one file. Views stay valid while `file` lives.
struct Safetensors {
  std::string path;
  std::shared_ptr<MappedFile> file;             // null when parsed from memory
  std::map<std::string, std::string> metadata;  // the header's __metadata__
  std::vector<TensorView> tensors;              // in order of their data

  const TensorView* find(const std::string& name) const;
  const TensorView& at(const std::string& name) const;  // missing: an error with the nearest name
};

// Parses bytes that stay owned by the caller; `path` only goes into messages.
Safetensors parse_safetensors(ByteSpan bytes, const std::string& path);
Safetensors read_safetensors(const std::string& path);

// A model folder or file: `model.safetensors.index.json` with its shards, a single .safetensors file, or
// a folder that holds either. Every tensor of every shard, each name once.
struct SafetensorsSet {
  std::vector<Safetensors> shards;
  std::map<std::string, const TensorView*> tensors;
};
SafetensorsSet read_safetensors_set(const std::string& path);

// Written atomically, every tensor aligned to its type, with metadata "sha256" over names, types, shapes,
// data and the other metadata.
void write_safetensors(const std::string& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata);

// The checksum as it must stand in the file's metadata.
std::string safetensors_checksum(const std::vector<TensorView>& tensors,
                                 const std::map<std::string, std::string>& metadata);

// Fails when the file carries no checksum or another one than its content gives.
void verify_checksum(const Safetensors& file);

}  // namespace asr
