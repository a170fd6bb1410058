// Samples kept for replay: texts, and pictures as the bytes of image files, never as pixels. A picture that was read
// from a file is kept as that file's own bytes, or, where files stay where they are, as its path alone; a drawn one as
// a PNG, which loses nothing. Between stages nothing of it changes.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "data/sample_set.h"
#include "parallel/team.h"
#include "tensor/state.h"

namespace asr {

enum class KeepPictures { bytes, files };
template <>
struct EnumNames<KeepPictures> {
  static constexpr const char* names[] = {"bytes", "files"};
};

struct ReplayOptions {
  KeepPictures keep = KeepPictures::bytes;
};

class ReplayBuffer {
 public:
  explicit ReplayBuffer(const ReplayOptions& options = {}) : options_(options) {}

  int64_t size() const { return static_cast<int64_t>(info_.size()); }
  const SampleInfo& info(int64_t i) const { return info_[static_cast<size_t>(i)]; }  // with the stage it is from
  int64_t bytes() const;                                                             // of pictures, texts apart

  // An equal quota of `capacity` for each of `stage` stages, the one of `data` among them: fresh samples are drawn at
  // random, old ones deleted at random.
  struct Quota {
    int64_t capacity = 0;
    int stage = 1;  // that has just been learnt, from 1
    uint64_t seed = 0;
  };
  void share_out(const SampleSet& data, const Quota& quota, const Team& team);
  // The rows that the caller chose.
  void add(const SampleSet& data, const std::vector<int64_t>& rows, int stage, const Team& team);
  void keep_only(const std::vector<int64_t>& rows);

  // Makes the samples readable by the model that `like` is for; needed after a change, and after loading.
  void open(const SampleSet& like);
  SampleSet& samples() const;  // as they were opened
  // `wanted` different rows, or all where there are fewer, in the order of the draw.
  std::vector<int64_t> draw(int64_t wanted, uint64_t key) const;
  // With `augment`, pictures are changed as those of the stage's own rows.
  SampleBatch rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment = {}) const;

  void state(StateVisitor& visitor);

 private:
  void take_state(const torch::Tensor& ends, const torch::Tensor& stages, const std::string& texts);

  ReplayOptions options_;
  std::vector<SampleInfo> info_;
  std::vector<PictureFile> files_;  // by sample; an empty path: its bytes are here
  torch::Tensor pictures_;          // [bytes] uint8, one file after another
  std::vector<int64_t> ends_;       // by sample: where its bytes end
  torch::Tensor posterior_;         // [N, skills], or undefined
  std::shared_ptr<SampleSet> set_;  // of the samples, once opened
};

}  // namespace asr
