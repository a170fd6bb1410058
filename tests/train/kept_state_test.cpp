// What is kept is listed where it lies, and said to be what is saved.
#include "train/kept_state.h"

#include <c10/core/CPUAllocator.h>

#include "base/checksums.h"
#include "tensor/torch_compat.h"
#include "tests/support/files.h"

namespace asr {
namespace {

class KeepsMuch final : public Method {
 public:
  void state(StateVisitor& visitor) override {
    visitor.tensor("numbers", StateKind::statistics, numbers_);
    visitor.tensor("none", StateKind::statistics, none_);
    visitor.text("words", StateKind::question, words_);
    visitor.number("count", StateKind::statistics, count_);
  }

 private:
  torch::Tensor numbers_ = at::arange(1 << 20, at::kFloat).view({1 << 10, 1 << 10}), none_;
  std::string words_ = std::string(1 << 20, 'w');
  int64_t count_ = 3;
};

// Counts what is asked for in place of the usual allocator.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* usual) : usual_(usual) { c10::SetCPUAllocator(this, kPriority); }
  ~CountingAllocator() override { c10::SetCPUAllocator(usual_, kPriority); }
  c10::DataPtr allocate(size_t size) ASR_ALLOCATE_CONST override {
    bytes += size;
    return usual_->allocate(size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  ASR_ALLOCATOR_COPY
  mutable size_t bytes = 0;

 private:
  static constexpr uint8_t kPriority = 100;  // as the block cache's (tensor/block_cache.cpp)
  c10::Allocator* usual_;
};

TEST(KeptState, IsListedWithoutACopy) {
  std::vector<std::unique_ptr<Method>> methods;
  methods.push_back(std::make_unique<KeepsMuch>());
  std::vector<ListedItem> listed;
  {
    const CountingAllocator counting(c10::GetCPUAllocator());
    listed = listed_items("vanilla", methods, ListHashes::yes);
    EXPECT_LT(counting.bytes, 1000u);  // the number
    at::zeros({1 << 20});
    EXPECT_GT(counting.bytes, 4u << 20);  // which the allocator sees
  }
  const auto saved = held_items("vanilla", methods);
  ASSERT_EQ(listed.size(), 3u);
  ASSERT_EQ(saved.size(), 3u);
  for (size_t i = 0; i < saved.size(); ++i) {
    const auto& tensor = saved[i].tensor;
    EXPECT_EQ(listed[i].name, saved[i].name);
    EXPECT_EQ(listed[i].kind, saved[i].kind);
    EXPECT_EQ(listed[i].shape, tensor.sizes().vec());
    EXPECT_EQ(listed[i].bytes, static_cast<int64_t>(tensor.nbytes()));
    EXPECT_EQ(listed[i].sha256, sha256_of({static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()}));
  }
  EXPECT_EQ(listed[0].to_json()["shape"], (std::vector<int64_t>{1 << 10, 1 << 10}));
  EXPECT_EQ(listed_items("vanilla", methods)[0].sha256, "");
}

}  // namespace
}  // namespace asr
