// Uninitialised working memory from libtorch's allocator without a tensor around it: to make a tensor takes longer than
// to fill it with a few hundred numbers.
#pragma once

#include <c10/core/CPUAllocator.h>

namespace asr {

template <class T>
class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t count) : held_(c10::GetCPUAllocator()->allocate(static_cast<size_t>(count) * sizeof(T))) {}
  T* get() const { return static_cast<T*>(held_.get()); }  // null where there is none

 private:
  c10::DataPtr held_;
};

}  // namespace asr
