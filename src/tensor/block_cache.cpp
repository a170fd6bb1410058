#include "tensor/block_cache.h"

#include <c10/core/CPUAllocator.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <vector>

#include "tensor/torch_compat.h"

namespace asr {
namespace {

constexpr size_t kAlignment = 64, kLargest = size_t(32) << 20, kKept = size_t(256) << 20;
// Multiples of 64 bytes up to 64 KB; above, eight sizes from one power of two to the next.
constexpr size_t kFine = size_t(64) << 10, kFineClasses = kFine / kAlignment, kSteps = 8;
constexpr size_t kClasses = kFineClasses + 1 + kSteps * 9;  // 64 KB times 2^9 is 32 MB

struct SizeClass {
  size_t number, bytes;
};

SizeClass class_of(size_t bytes) {
  if (bytes <= kFine) {
    const size_t steps = (bytes + kAlignment - 1) / kAlignment;
    return {steps, steps * kAlignment};
  }
  const auto doubling = static_cast<size_t>(std::bit_width((bytes - 1) / kFine)) - 1;
  const size_t base = kFine << doubling, step = base / kSteps, above = (bytes - base + step - 1) / step;
  return {kFineClasses + doubling * kSteps + above, base + above * step};
}

// In front of every block; as long as the alignment, so that tensors begin aligned.
struct alignas(kAlignment) Header {
  SizeClass size;  // number kClasses: never kept
};

thread_local bool g_thread_ends = false;  // outlives the cache: tensors may be freed after it

struct Cache {
  std::array<std::vector<Header*>, kClasses> free;
  size_t bytes = 0;

  ~Cache() {
    clear();
    g_thread_ends = true;
  }
  void clear() {
    for (auto& list : free) {
      for (auto* header : list) std::free(header);
      list.clear();
    }
    bytes = 0;
  }
};

Cache& cache() {
  thread_local Cache here;
  return here;
}

void release(void* data) {
  if (!data) return;
  auto* header = static_cast<Header*>(data) - 1;
  const auto size = header->size;
  if (size.number == kClasses || g_thread_ends) return std::free(header);
  auto& here = cache();
  if (here.bytes + size.bytes > kKept) here.clear();
  here.bytes += size.bytes;
  here.free[size.number].push_back(header);
}

void* obtain(size_t bytes) {
  auto size = SizeClass{kClasses, bytes};
  if (bytes <= kLargest) {
    size = class_of(bytes);
    if (!g_thread_ends)
      if (auto& list = cache().free[size.number]; !list.empty()) {
        auto* header = list.back();
        list.pop_back();
        cache().bytes -= size.bytes;
        return header + 1;
      }
  }
  void* block = nullptr;
  TORCH_CHECK(::posix_memalign(&block, kAlignment, size.bytes + sizeof(Header)) == 0,
              "not enough memory for a tensor of ", bytes, " bytes");
  auto* header = new (block) Header{size};
  return header + 1;
}

struct BlockCache final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) ASR_ALLOCATE_CONST override {
    void* data = bytes ? obtain(bytes) : nullptr;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  ASR_ALLOCATOR_COPY
};

}  // namespace

void use_block_cache() {
  static BlockCache allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

}  // namespace asr
