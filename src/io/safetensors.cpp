#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/text.h"

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
constexpr size_t kMaxRank = 16;

using nlohmann::json;

// nlohmann keeps the last of two equal keys; a file that names a tensor twice must be refused instead.
json parse_header(const char* begin, const char* end, const std::string& path) {
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
      check(open_objects.size() <= 4, path, ": header is nested too deeply for safetensors");
    } else if (event == json::parse_event_t::array_start) {
      check(open_objects.size() >= 2, path, ": header is not an object of tensors");
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      check(open_objects.back().insert(key).second, path, ": name '", printable(key), "' stands twice in the header");
    }
    return true;
  };
  try {
    return json::parse(begin, end, watch);
  } catch (const json::exception& error) {
    fail(path, ": header is not valid JSON (byte ", 8, " on): ", printable(error.what(), 120),
         "; is this a safetensors file?");
  }
}

uint64_t as_size(const json& value, const std::string& path, const std::string& name, const char* what) {
  check(value.is_number_unsigned(), path, ": tensor '", printable(name), "' has a ", what,
        " that is not a whole number >= 0");
  return value.get<uint64_t>();
}

TensorView parse_entry(const std::string& name, const json& entry, ByteSpan data, const std::string& path) {
  const std::string shown = printable(name);
  check(entry.is_object() && entry.contains("dtype") && entry.contains("shape") && entry.contains("data_offsets"), path,
        ": tensor '", shown, "' lacks dtype, shape or data_offsets");
  check(entry.at("dtype").is_string(), path, ": tensor '", shown, "' has a dtype that is not text");
  TensorView view;
  view.name = name;
  const auto spelled = entry.at("dtype").get<std::string>();
  const auto row =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const auto& r) { return r.name == spelled; });
  check(row != std::end(kDtypes), path, ": tensor '", shown, "' has unknown dtype '", printable(spelled), "'");
  view.dtype = row->dtype;

  const auto& shape = entry.at("shape");
  check(shape.is_array() && shape.size() <= kMaxRank, path, ": tensor '", shown,
        "' has a shape that is no list of at most ", kMaxRank, " sizes");
  bool empty = false;
  for (const auto& size : shape) {
    const uint64_t extent = as_size(size, path, name, "size");
    check(extent <= INT64_MAX, path, ": tensor '", shown, "' has an absurd shape");
    empty = empty || extent == 0;
    view.shape.push_back(static_cast<int64_t>(extent));
  }
  int64_t bytes =
      static_cast<int64_t>(row->bytes);  // of the sizes that are not 0, so that an empty tensor's are checked too
  for (int64_t extent : view.shape)
    check(!__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes), path, ": tensor '", shown,
          "' has an absurd shape");
  if (empty) bytes = 0;

  const auto& offsets = entry.at("data_offsets");
  check(offsets.is_array() && offsets.size() == 2, path, ": tensor '", shown, "' needs two data_offsets");
  const uint64_t begin = as_size(offsets[0], path, name, "offset"), end = as_size(offsets[1], path, name, "offset");
  check(begin <= end && end <= data.size, path, ": tensor '", shown, "' lies outside the file (bytes ", begin, "..",
        end, " of ", data.size, "); the file may be truncated");
  check(end - begin == static_cast<uint64_t>(bytes), path, ": tensor '", shown, "' needs ", bytes,
        " bytes for its shape but has ", end - begin);
  view.data = {data.data + begin, static_cast<size_t>(bytes)};
  return view;
}

}  // namespace

const char* dtype_name(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].name;
}
size_t dtype_bytes(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].bytes;
}

const TensorView* Safetensors::find(const std::string& name) const {
  for (const auto& tensor : tensors)
    if (tensor.name == name) return &tensor;
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
  const json root = parse_header(header, header + length, path);
  check(root.is_object(), path, ": header is not a JSON object; not a safetensors file");

  Safetensors out;
  out.path = path;
  const ByteSpan data{bytes.data + 8 + length, static_cast<size_t>(bytes.size - 8 - length)};
  for (const auto& [name, entry] : root.items()) {
    if (name != "__metadata__") {
      out.tensors.push_back(parse_entry(name, entry, data, path));
      continue;
    }
    check(entry.is_object(), path, ": __metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      check(value.is_string(), path, ": __metadata__ '", printable(key), "' is not text");
      out.metadata[key] = value.get<std::string>();
    }
  }
  std::stable_sort(out.tensors.begin(), out.tensors.end(), [](const auto& a, const auto& b) {
    return a.data.data != b.data.data ? a.data.data < b.data.data : a.data.size < b.data.size;
  });
  const uint8_t* cursor = data.data;
  for (const auto& tensor : out.tensors) {
    check(tensor.data.data >= cursor, path, ": tensor '", printable(tensor.name), "' overlaps the one before it");
    check(tensor.data.data == cursor, path, ": ", tensor.data.data - cursor, " unused bytes before tensor '",
          printable(tensor.name), "'");
    cursor = tensor.data.data + tensor.data.size;
  }
  check(cursor == data.data + data.size, path, ": ", data.data + data.size - cursor,
        " bytes after the last tensor; header and file disagree");
  return out;
}

Safetensors read_safetensors(const std::string& path) {
  auto file = MappedFile::open(path);
  Safetensors out = parse_safetensors(file->bytes(), path);
  out.file = std::move(file);
  return out;
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

  json header = json::object();
  auto stamped = metadata;
  stamped["sha256"] = safetensors_checksum(tensors, metadata);
  header["__metadata__"] = stamped;
  uint64_t offset = 0;
  for (const auto* tensor : order) {
    check(!header.contains(tensor->name), path, ": tensor '", tensor->name, "' is to be written twice");
    const uint64_t end = offset + tensor->data.size;
    header[tensor->name] = {
        {"dtype", dtype_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  AtomicFile file(path);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(text.size() >> (8 * i));
  file.write(length, 8);
  file.write(text);
  for (const auto* tensor : order) file.write(tensor->data.data, tensor->data.size);
  file.commit();
}

}  // namespace asr
