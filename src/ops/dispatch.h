// Which implementation of an operator serves given tensors: asked here, and nowhere else. Every operator has a
// reference, a plain graph of ATen operators for any type and device. Beside it may stand a kernel of our own on the
// CPU, one on a GPU (where the program was built with nvcc), and an operator of the library on a GPU, each for some
// types of numbers (op.h, op.cpp with the choice, op_reference.cpp, op_cpu.cpp, op_cuda.cu with op_cuda.cpp).
#pragma once

#include <torch/types.h>

#include "base/error.h"
#include "base/options.h"
#include "ops/cuda_tensors.h"

namespace asr {

// What a caller may ask for; automatic: the fastest that serves.
enum class Implementation { automatic, reference, fused };
template <>
struct EnumNames<Implementation> {
  static constexpr const char* names[] = {"automatic", "reference", "fused"};
};

enum class Path { reference, cpu, cuda, library };

// Types of numbers, as a set.
struct Types {
  uint64_t bits = 0;
  constexpr Types() = default;
  constexpr Types(std::initializer_list<at::ScalarType> list) {
    for (const auto type : list) bits |= uint64_t(1) << static_cast<int>(type);
  }
  constexpr bool has(at::ScalarType type) const { return bits >> static_cast<int>(type) & 1; }
};
inline constexpr Types kSingle = {at::kFloat};
inline constexpr Types kSingleAndDouble = {at::kFloat, at::kDouble};
inline constexpr Types kUpToSingle = {at::kHalf, at::kBFloat16, at::kFloat};
inline constexpr Types kFloating = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

// What an operator has beside its reference.
struct Kernels {
  Types cpu;        // our kernel: all tensors of one of these types
  Types library;    // on a GPU, by the type of the first tensor; types may be mixed as in the reference
  Types cuda = {};  // our kernel on a GPU, before the library's: all tensors of one of these types
};

inline Path path_for(const Kernels& kernels, at::Device device, at::ScalarType type) {
  if (kernels.cuda.has(type) && cuda_kernels_take(device)) return Path::cuda;
  if (device.is_cpu() && kernels.cpu.has(type)) return Path::cpu;
  if (device.is_cuda() && kernels.library.has(type)) return Path::library;
  return Path::reference;
}

// The path for these tensors, which lie on one device. Undefined ones do not count; an empty one takes the reference,
// so that kernels need not think of it.
template <class... More>
Path path_for(const Kernels& kernels, const torch::Tensor& first, const More&... more) {
  const auto type = first.scalar_type();
  const auto device = first.device();
  bool one_type = true;
  bool usable = first.numel() > 0;
  [[maybe_unused]] const auto look = [&](const torch::Tensor& x) {
    if (!x.defined()) return;
    one_type = one_type && x.scalar_type() == type;
    usable = usable && x.numel() > 0 && x.device() == device;
  };
  (look(more), ...);
  const auto path = path_for(kernels, device, type);
  if (!usable) return Path::reference;
  if (one_type || path == Path::library) return path;
  return device.is_cuda() && kernels.library.has(type) ? Path::library : Path::reference;
}

// The path after the caller's wish; a wish that nothing serves is an error.
inline Path path_for(Implementation wanted, Path found) {
  if (wanted == Implementation::reference) return Path::reference;
  check(wanted != Implementation::fused || found == Path::cpu || found == Path::cuda,
        "no fused implementation serves these tensors; use automatic or reference");
  return found;
}

}  // namespace asr
