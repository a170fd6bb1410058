// Batches that are being made on threads of their own, by their rows.
#pragma once

#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backbones/backbone.h"

namespace asr {

class Prefetched {
 public:
  using Key = std::pair<std::vector<int64_t>, std::optional<uint64_t>>;  // rows and the key of their augmentation
  template <class Make>
  void start(const Key& rows, Make make) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!batches_.count(rows)) batches_.emplace(rows, std::async(std::launch::async, std::move(make)));
  }
  // The batch, or nothing where it was never started. What went wrong while packing is thrown here.
  std::optional<Batch> take(const Key& rows) {
    std::future<Batch> found;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto place = batches_.find(rows);
      if (place == batches_.end()) return std::nullopt;
      found = std::move(place->second);
      batches_.erase(place);
    }
    return found.get();
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::future<Batch>> batches_;
};

}  // namespace asr
