#include "io/safetensors_header.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kMaxRank = 16;
constexpr int kLastDtype = static_cast<int>(Dtype::C64);
constexpr int kDeepestHeader = 4;  // the header, a tensor, its shape; one more for keys that are not ours

class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  HeaderReader(ByteSpan data, Safetensors& out) : data_(data), out_(out) {}

  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }  // below 0
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool binary(binary_t&) override { return other_value(); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool start_object(size_t) override;
  bool start_array(size_t) override;
  bool end_object() override;
  bool end_array() override;
  bool key(string_t& name) override;
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    fail(out_.path, ": header is not valid JSON (byte 8 on): ", json_reason(error), "; is this a safetensors file?");
  }

 private:
  enum class Part { none, dtype, shape, offsets, metadata, unknown };

  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    fail(out_.path, ": tensor '", printable(name_), "' ", words...);
  }
  [[noreturn]] void refuse_twice(const std::string& name) const {
    fail(out_.path, ": name '", printable(name), "' stands twice in the header");
  }
  void deeper() {
    ++depth_;
    check(depth_ <= kDeepestHeader, out_.path, ": header is nested too deeply for safetensors");
  }
  bool other_value() {
    misplaced();
    return true;
  }
  void misplaced() const;
  void finish_tensor();

  ByteSpan data_;
  Safetensors& out_;
  int depth_ = 0;  // open objects and lists
  bool in_metadata_ = false, metadata_seen_ = false;
  std::string name_, metadata_key_, dtype_;
  Part part_ = Part::none;  // of the tensor, whose value comes next
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> shape_, offsets_;
};

// Fails where something else than a fitting value stands; keys that are not ours may hold anything.
void HeaderReader::misplaced() const {
  check(depth_ > 0, out_.path, ": header is not a JSON object; not a safetensors file");
  check(!in_metadata_ || depth_ > 1, out_.path, ": __metadata__ is not an object");
  if (depth_ == 1) refuse("lacks dtype, shape or data_offsets");
  check(!in_metadata_, out_.path, ": __metadata__ '", printable(metadata_key_), "' is not text");
  if (part_ == Part::dtype) refuse("has a dtype that is not text");
  if (part_ == Part::shape && depth_ == 2) refuse("has a shape that is no list of at most ", kMaxRank, " sizes");
  if (part_ == Part::shape) refuse("has a size that is not a whole number >= 0");
  if (part_ == Part::offsets && depth_ == 2) refuse("needs two data_offsets");
  if (part_ == Part::offsets) refuse("has an offset that is not a whole number >= 0");
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  const bool listed = depth_ == 3 && (part_ == Part::shape || part_ == Part::offsets);
  if (!listed) return other_value();
  auto& list = part_ == Part::shape ? shape_ : offsets_;
  list.push_back(value);
  if (shape_.size() > kMaxRank) refuse("has a shape that is no list of at most ", kMaxRank, " sizes");
  if (offsets_.size() > 2) refuse("needs two data_offsets");
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (depth_ == 2 && in_metadata_)
    out_.metadata[metadata_key_] = std::move(value);
  else if (depth_ == 2 && part_ == Part::dtype)
    dtype_ = std::move(value);
  else
    misplaced();
  return true;
}

bool HeaderReader::start_object(size_t) {
  if (depth_ >= 2) misplaced();
  deeper();
  return true;
}

bool HeaderReader::start_array(size_t) {
  check(depth_ > 0, out_.path, ": header is not an object of tensors");
  const bool list = depth_ == 2 && !in_metadata_ && (part_ == Part::shape || part_ == Part::offsets);
  if (!list) misplaced();
  deeper();
  return true;
}

bool HeaderReader::end_array() {
  --depth_;
  return true;
}

bool HeaderReader::end_object() {
  --depth_;
  if (depth_ == 1 && !in_metadata_) finish_tensor();
  if (depth_ == 1) in_metadata_ = false;
  return true;
}

bool HeaderReader::key(string_t& name) {
  if (depth_ == 1) {
    name_ = std::move(name);
    in_metadata_ = name_ == "__metadata__";
    if (in_metadata_ && metadata_seen_) refuse_twice(name_);
    metadata_seen_ = metadata_seen_ || in_metadata_;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    part_ = Part::none;
    shape_.clear();
    offsets_.clear();
  } else if (in_metadata_) {
    if (out_.metadata.count(name)) refuse_twice(name);
    metadata_key_ = std::move(name);
  } else if (depth_ == 2) {
    part_ = name == "dtype"          ? Part::dtype
            : name == "shape"        ? Part::shape
            : name == "data_offsets" ? Part::offsets
                                     : Part::unknown;
    bool unknown = false;
    bool& seen = part_ == Part::dtype     ? has_dtype_
                 : part_ == Part::shape   ? has_shape_
                 : part_ == Part::offsets ? has_offsets_
                                          : unknown;
    if (seen) refuse_twice(name);
    seen = true;
  }
  return true;
}

void HeaderReader::finish_tensor() {
  if (!has_dtype_ || !has_shape_ || !has_offsets_) refuse("lacks dtype, shape or data_offsets");
  if (offsets_.size() != 2) refuse("needs two data_offsets");
  TensorView view;
  int type = 0;
  while (type <= kLastDtype && dtype_ != dtype_name(static_cast<Dtype>(type))) ++type;
  if (type > kLastDtype) refuse("has unknown dtype '", printable(dtype_), "'");
  view.dtype = static_cast<Dtype>(type);
  // The product of the sizes that are not 0, so that an empty tensor's are checked too.
  auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
  for (const uint64_t extent : shape_) {
    const auto size = static_cast<int64_t>(std::min<uint64_t>(extent, INT64_MAX));
    const bool absurd = extent > INT64_MAX || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
    if (absurd) refuse("has an absurd shape");
    view.shape.push_back(size);
  }
  if (std::find(shape_.begin(), shape_.end(), 0u) != shape_.end()) bytes = 0;
  const uint64_t begin = offsets_[0], end = offsets_[1];
  if (begin > end || end > data_.size)
    refuse("lies outside the file (bytes ", begin, "..", end, " of ", data_.size, "); the file may be truncated");
  if (end - begin != static_cast<uint64_t>(bytes))
    refuse("needs ", bytes, " bytes for its shape but has ", end - begin);
  view.data = {data_.data + begin, static_cast<size_t>(bytes)};
  view.name = std::move(name_);
  out_.tensors.push_back(std::move(view));
}

}  // namespace

void read_safetensors_header(std::string_view header, ByteSpan data, Safetensors& out) {
  HeaderReader reader(data, out);
  check(header.find('\0') == std::string_view::npos, out.path,
        ": header is not valid JSON: a zero byte; is this a safetensors file?");
  json::sax_parse(header.data(), header.data() + header.size(), &reader);
}

std::string safetensors_header(const std::vector<const TensorView*>& tensors,
                               const std::map<std::string, std::string>& metadata, const std::string& path) {
  auto header = nlohmann::json::object();
  header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto* tensor : tensors) {
    check(!header.contains(tensor->name), path, ": tensor '", tensor->name, "' is to be written twice");
    const uint64_t end = offset + tensor->data.size;
    header[tensor->name] = {
        {"dtype", dtype_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace asr
