#include "tensor/device_profile.h"

#include <algorithm>
#include <map>

#include "tensor/torch_version.h"

#if ASR_DEVICE_PROFILE
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#endif

namespace asr {

#if ASR_DEVICE_PROFILE

void forget_memory_peak(at::Device device) {
  if (device.is_cuda()) c10::getDeviceAllocator(device.type())->resetPeakStats(device.has_index() ? device.index() : 0);
}

MemoryPeak memory_peak(at::Device device) {
  if (!device.is_cuda()) return {};
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.has_index() ? device.index() : 0);
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {static_cast<double>(stats.allocated_bytes[all].peak), static_cast<double>(stats.reserved_bytes[all].peak)};
}

std::vector<KernelTime> profile_kernels(const std::function<void()>& work) {
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities = {ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  work();
  const auto result = torch::autograd::profiler::disableProfiler();
  std::map<std::string, KernelTime> found;
  for (const auto& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    auto& sum = found[event.name()];
    sum.name = event.name();
    sum.milliseconds += static_cast<double>(event.durationNs()) * 1e-6;
    ++sum.calls;
  }
  std::vector<KernelTime> out;
  for (const auto& [name, sum] : found) out.push_back(sum);
  std::sort(out.begin(), out.end(),
            [](const KernelTime& a, const KernelTime& b) { return a.milliseconds > b.milliseconds; });
  return out;
}

#else

void forget_memory_peak(at::Device) {}

MemoryPeak memory_peak(at::Device) {
  return {};
}

std::vector<KernelTime> profile_kernels(const std::function<void()>& work) {
  work();
  return {};
}

#endif

}  // namespace asr
