#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "io/safetensors_header.h"
#include "io/safetensors_metadata.h"

namespace asr {
namespace {

struct DtypeRow {
  Dtype dtype;
  const char* name;
  size_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {Dtype::Bool, "BOOL", 1},       {Dtype::U8, "U8", 1},           {Dtype::I8, "I8", 1},
    {Dtype::F8_E4M3, "F8_E4M3", 1}, {Dtype::F8_E5M2, "F8_E5M2", 1}, {Dtype::F8_E8M0, "F8_E8M0", 1},
    {Dtype::U16, "U16", 2},         {Dtype::I16, "I16", 2},         {Dtype::F16, "F16", 2},
    {Dtype::BF16, "BF16", 2},       {Dtype::U32, "U32", 4},         {Dtype::I32, "I32", 4},
    {Dtype::F32, "F32", 4},         {Dtype::U64, "U64", 8},         {Dtype::I64, "I64", 8},
    {Dtype::F64, "F64", 8},         {Dtype::C64, "C64", 8}};

constexpr uint64_t kMaxHeader = 100u << 20;  // the format's own limit

// A name that stands twice would make one of the tensors unreachable.
void check_names(const Safetensors& file) {
  std::unordered_set<std::string_view> names;
  names.reserve(file.tensors.size());
  for (const auto& tensor : file.tensors)
    if (!names.insert(tensor.name).second)
      fail(file.path, ": name '", printable(tensor.name), "' stands twice in the header");
}

void check_side_by_side(const Safetensors& file, ByteSpan data) {
  const uint8_t* cursor = data.data;
  for (const auto& tensor : file.tensors) {
    check(tensor.data.data >= cursor, file.path, ": tensor '", printable(tensor.name), "' overlaps the one before it");
    check(tensor.data.data == cursor, file.path, ": ", tensor.data.data - cursor, " unused bytes before tensor '",
          printable(tensor.name), "'");
    cursor = tensor.data.data + tensor.data.size;
  }
  check(cursor == data.data + data.size, file.path, ": ", data.data + data.size - cursor,
        " bytes after the last tensor; header and file disagree");
}

}  // namespace

const char* dtype_name(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].name;
}
size_t dtype_bytes(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].bytes;
}

const TensorView* Safetensors::find(const std::string& name) const {
  // Whoever reads all tensors does so in their order: looking first behind the last one found makes that linear.
  thread_local size_t hint = 0;
  const size_t count = tensors.size(), start = hint < count ? hint : 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = start + i < count ? start + i : start + i - count;
    if (tensors[at].name != name) continue;
    hint = at + 1;
    return &tensors[at];
  }
  return nullptr;
}

const TensorView& Safetensors::at(const std::string& name) const {
  if (const TensorView* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(printable(tensor.name));
  fail(path, ": has no tensor '", name, "'", did_you_mean(name, names));
}

Safetensors parse_safetensors(ByteSpan bytes, const std::string& path) {
  check(bytes.size >= 8, path, ": is only ", bytes.size, " bytes; not a safetensors file");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes.data[i];
  check(length <= bytes.size - 8, path, ": header length ", length, " is beyond the file's ", bytes.size,
        " bytes; truncated, or not a safetensors file");
  check(length <= kMaxHeader, path, ": header of ", length, " bytes is over the format's limit");
  const char* header = reinterpret_cast<const char*>(bytes.data) + 8;
  Safetensors out;
  out.path = path;
  const ByteSpan data{bytes.data + 8 + length, static_cast<size_t>(bytes.size - 8 - length)};
  read_safetensors_header({header, static_cast<size_t>(length)}, data, out);
  const auto earlier = [](const TensorView& a, const TensorView& b) {
    return a.data.data != b.data.data ? a.data.data < b.data.data : a.data.size < b.data.size;
  };
  if (!std::is_sorted(out.tensors.begin(), out.tensors.end(), earlier))
    std::stable_sort(out.tensors.begin(), out.tensors.end(), earlier);
  check_names(out);
  check_side_by_side(out, data);
  return out;
}

Safetensors read_safetensors(const std::string& path) {
  auto file = MappedFile::open(path);
  Safetensors out = parse_safetensors(file->bytes(), path);
  out.file = std::move(file);
  return out;
}

nlohmann::json metadata_json(const Safetensors& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  check(found != file.metadata.end(), file.path, ": lacks the metadata '", key, "'");
  return parse_json(found->second, cat(file.path, ": metadata '", key, "'"));
}

std::string safetensors_checksum(const std::vector<TensorView>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorView*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->name < b->name; });
  Sha256 hash;
  const auto text = [&hash](const std::string& value) {
    hash.update_int(value.size());
    hash.update(value);
  };
  for (const auto* tensor : order) {
    text(tensor->name);
    text(dtype_name(tensor->dtype));
    hash.update_int(tensor->shape.size());
    for (int64_t size : tensor->shape) hash.update_int(static_cast<uint64_t>(size));
    hash.update(tensor->data.data, tensor->data.size);
  }
  for (const auto& [key, value] : metadata) {
    if (key == "sha256") continue;
    text(key);
    text(value);
  }
  return hash.hex();
}

void verify_checksum(const Safetensors& file) {
  const auto stored = file.metadata.find("sha256");
  check(stored != file.metadata.end(), file.path, ": carries no checksum; it was not written by asr");
  check(stored->second == safetensors_checksum(file.tensors, file.metadata), file.path,
        ": checksum does not match; the file was damaged or edited");
}

void write_safetensors(const std::string& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorView*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  // Widest types first: without gaps, which the format forbids, every tensor is then aligned.
  std::stable_sort(order.begin(), order.end(),
                   [](auto* a, auto* b) { return dtype_bytes(a->dtype) > dtype_bytes(b->dtype); });

  auto stamped = metadata;
  stamped["sha256"] = safetensors_checksum(tensors, metadata);
  const auto text = safetensors_header(order, stamped, path);
  AtomicFile file(path);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(text.size() >> (8 * i));
  file.write(length, 8);
  file.write(text);
  for (const auto* tensor : order) file.write(tensor->data.data, tensor->data.size);
  file.commit();
}

}  // namespace asr
