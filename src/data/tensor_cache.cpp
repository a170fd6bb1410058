#include "data/tensor_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"

namespace asr {
namespace {

constexpr uint64_t kMagic = 0x3145484341525341;  // "ASRACHE1"
constexpr int64_t kMostDimensions = 4;

struct CachedHeader {
  uint64_t magic = kMagic, checksum = 0;
  int64_t is_float = 0, dimensions = 0;
  std::array<int64_t, kMostDimensions> shape{};
};

// Against damage, not against intent: four lanes of words, so that it takes no longer than reading the file. SHA-256
// would take longer than drawing the pictures again on a few processors.
uint64_t checksum_of(const uint8_t* data, size_t size) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::array<uint64_t, 4> lanes = {1, 2, 3, 4};
  const auto take = [&](uint64_t& lane, const uint8_t* from, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    lane = (lane ^ word) * kOdd;
    lane ^= lane >> 29;
  };
  size_t at = 0;
  for (; at + 32 <= size; at += 32)
    for (size_t i = 0; i < 4; ++i) take(lanes[i], data + at + 8 * i, 8);
  for (; at < size; at += 8) take(lanes[0], data + at, std::min<size_t>(8, size - at));
  uint64_t out = size;
  for (const uint64_t lane : lanes) {
    out = (out ^ lane) * kOdd;
    out ^= out >> 29;
  }
  return out;
}

// Of the numbers and of what is said of them.
uint64_t whole_checksum(CachedHeader header, const uint8_t* data, size_t size) {
  header.checksum = checksum_of(data, size);
  return checksum_of(reinterpret_cast<const uint8_t*>(&header), sizeof header);
}

// Held by the one process that writes a file; it goes with the process, however that ends.
class WriterLock {
 public:
  explicit WriterLock(const std::string& path) : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    taken_ = descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  }
  ~WriterLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  bool taken() const { return taken_; }

 private:
  int descriptor_;
  bool taken_ = false;
};

bool sound(const CachedHeader& header, int64_t bytes) {
  if (header.magic != kMagic || header.dimensions < 1 || header.dimensions > kMostDimensions) return false;
  int64_t left = bytes / (header.is_float ? 4 : 1);
  for (int64_t i = 0; i < header.dimensions; ++i) {
    const int64_t size = header.shape[static_cast<size_t>(i)];
    if (size < 1 || left % size != 0) return false;
    left /= size;
  }
  return left == 1 && (header.is_float == 0 || bytes % 4 == 0);
}

}  // namespace

TensorCache::TensorCache(std::string folder) : folder_(std::move(folder)) {
  make_folders(folder_);
}

torch::Tensor TensorCache::find(const std::string& name) const {
  const auto path = path_of(name);
  if (!path_exists(path)) return {};
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  CachedHeader header;
  const auto bytes = static_cast<int64_t>(file.tellg()) - static_cast<int64_t>(sizeof header);
  file.seekg(0);
  torch::Tensor out;
  if (file.read(reinterpret_cast<char*>(&header), sizeof header) && sound(header, bytes)) {
    const at::IntArrayRef shape(header.shape.data(), static_cast<size_t>(header.dimensions));
    out = at::empty(shape, header.is_float ? at::kFloat : at::kByte);
    auto* data = static_cast<uint8_t*>(out.data_ptr());
    if (!file.read(reinterpret_cast<char*>(data), bytes) ||
        whole_checksum(header, data, static_cast<size_t>(bytes)) != header.checksum)
      out = torch::Tensor();
  }
  if (!out.defined()) log_warn(cat(path, ": is damaged; it is made again"));
  return out;
}

void TensorCache::keep(const std::string& name, const torch::Tensor& tensor) const {
  const auto all = tensor.detach().cpu().contiguous();
  const bool is_float = all.scalar_type() == at::kFloat;
  check(is_float || all.scalar_type() == at::kByte, "a cache keeps bytes and float32, not ",
        at::toString(all.scalar_type()));
  check(all.dim() >= 1 && all.dim() <= kMostDimensions && all.numel() > 0, "a cache keeps no tensor of shape ",
        all.sizes());
  const auto path = path_of(name);
  const WriterLock lock(path + ".lock");
  if (!lock.taken()) return;
  CachedHeader header;
  header.is_float = is_float;
  header.dimensions = all.dim();
  std::copy(all.sizes().begin(), all.sizes().end(), header.shape.begin());
  const auto* data = static_cast<const uint8_t*>(all.data_ptr());
  header.checksum = whole_checksum(header, data, all.nbytes());
  try {
    AtomicFile file(path);
    file.write(&header, sizeof header);
    file.write(data, all.nbytes());
    file.commit();
  } catch (const Error& error) {
    log_warn(cat(error.what(), "; nothing is kept there"));
  }
}

}  // namespace asr
