// Processes of a team as threads of a test.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/team.h"

namespace asr {

// Where the members meet: each leaves a tensor and sees those of all.
class MeetingPlace {
 public:
  explicit MeetingPlace(int64_t size) : given_(static_cast<size_t>(size)) {}
  std::vector<torch::Tensor> exchange(int64_t rank, const torch::Tensor& mine) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return leaving_ == 0; });
    given_[static_cast<size_t>(rank)] = mine.clone();
    if (++here_ == given_.size()) {
      leaving_ = given_.size();
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return leaving_ > 0; });
    auto all = given_;
    if (--leaving_ == 0) {
      here_ = 0;
      changed_.notify_all();
    }
    return all;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t here_ = 0, leaving_ = 0;
  std::vector<torch::Tensor> given_;
};

class ThreadTeam final : public Team {
 public:
  ThreadTeam(int64_t rank, int64_t size, MeetingPlace& place) : rank_(rank), size_(size), place_(place) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  torch::Tensor gather(const torch::Tensor& rows) const override {
    std::vector<torch::Tensor> parts;
    for (const auto& part : place_.exchange(rank_, rows))
      if (part.numel() > 0) parts.push_back(part);
    return parts.empty() ? rows : at::cat(parts);
  }
  void sum(torch::Tensor& value) const override {
    const auto all = place_.exchange(rank_, value);
    auto total = all[0].clone();
    for (size_t i = 1; i < all.size(); ++i) total += all[i];
    value.copy_(total);
  }

 private:
  int64_t rank_, size_;
  MeetingPlace& place_;
};

// Runs `work` once for every member, in threads of their own.
inline void as_team(int64_t size, const std::function<void(const Team&)>& work) {
  MeetingPlace place(size);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(ThreadTeam(rank, size, place));
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace asr
