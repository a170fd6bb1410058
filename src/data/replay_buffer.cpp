#include "data/replay_buffer.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "data/walk.h"
#include "streams/picture.h"

namespace asr {
namespace {

constexpr const char* kDamaged = "the stored replay buffer is damaged: ";

std::string buffer_texts(const std::vector<SampleInfo>& info, const std::vector<PictureFile>& files) {
  auto list = nlohmann::json::array();
  for (size_t i = 0; i < info.size(); ++i) {
    const auto& s = info[i];
    list.push_back({s.id, s.question, s.answer, s.skill, s.references, s.type, s.part, s.group, files[i].path,
                    files[i].frames, s.category});
  }
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_buffer_text(const nlohmann::json& s) {
  if (!s.is_array() || s.size() != 11 || !s[4].is_array() || !s[9].is_number_integer()) return false;
  for (const size_t text : {0, 1, 2, 3, 5, 6, 7, 8, 10})
    if (!s[text].is_string()) return false;
  return std::all_of(s[4].begin(), s[4].end(), [](const auto& reference) { return reference.is_string(); });
}

void read_buffer_texts(const std::string& json, std::vector<SampleInfo>& info, std::vector<PictureFile>& files) {
  info.clear();
  files.clear();
  const auto list = parse_json(json, "texts of the stored replay buffer");
  check(list.is_array(), kDamaged, "its texts are no list");
  for (const auto& s : list) {
    check(is_buffer_text(s), kDamaged, "text ", info.size() + 1, " is none");
    SampleInfo text{s[0], s[1], s[2], s[3], s[4].get<std::vector<std::string>>(), s[5], s[6], s[7]};
    text.category = s[10];
    check(!text.question.empty() && !text.answer.empty(), kDamaged, "text ", info.size() + 1, " is empty");
    info.push_back(std::move(text));
    files.push_back({s[8], s[9]});
  }
}

// Bytes that grow without lying twice in memory: pages of their own, which the system moves, and of which those that
// nothing was written to cost nothing. (Large blocks of malloc are kept for the next step, tensor/runtime.cpp.)
class GrowingBytes {
 public:
  GrowingBytes() = default;
  GrowingBytes(const GrowingBytes&) = delete;
  GrowingBytes& operator=(const GrowingBytes&) = delete;
  ~GrowingBytes() {
    if (data_) munmap(data_, room_);
  }
  size_t size() const { return size_; }
  void append(const void* bytes, size_t count) {
    if (count == 0) return;
    if (size_ + count > room_) resize(std::max(size_ + count, room_ + room_ / 2));
    std::memcpy(data_ + size_, bytes, count);
    size_ += count;
  }
  // They belong to the tensor from now on.
  torch::Tensor taken() {
    if (size_ == 0) return at::empty({0}, at::kByte);
    resize(size_);
    auto* const data = std::exchange(data_, nullptr);
    const auto unmap = [room = room_](void* pages) { munmap(pages, room); };
    return at::from_blob(data, {static_cast<int64_t>(size_)}, unmap, at::kByte);
  }

 private:
  void resize(size_t room) {
    constexpr size_t kPage = 4096;
    room = (room + kPage - 1) / kPage * kPage;
    void* const pages = data_ ? mremap(data_, room_, room, MREMAP_MAYMOVE)
                              : mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages != MAP_FAILED, "no memory for ", room, " bytes of kept pictures; keep fewer, or their files alone");
    data_ = static_cast<uint8_t*>(pages);
    room_ = room;
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

torch::Tensor below(const torch::Tensor& a, const torch::Tensor& b, bool first) {
  if (first) return b;
  return a.defined() && b.defined() ? at::cat({a, b}) : torch::Tensor();
}

}  // namespace

int64_t ReplayBuffer::bytes() const {
  return pictures_.defined() ? pictures_.numel() : 0;
}

void ReplayBuffer::share_out(const SampleSet& data, const Quota& quota, const Team& team) {
  const int64_t share = std::max<int64_t>(1, quota.capacity / quota.stage);
  Random random({quota.seed, 0xb0ff, static_cast<uint64_t>(quota.stage)});
  const auto drawn = [&](std::vector<int64_t> rows) {
    random.shuffle(rows);
    rows.resize(std::min(static_cast<size_t>(share), rows.size()));
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  std::vector<int64_t> kept;
  for (int old = 1; old < quota.stage; ++old) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < size(); ++i)
      if (info(i).stage == old) rows.push_back(i);
    rows = drawn(std::move(rows));
    kept.insert(kept.end(), rows.begin(), rows.end());
  }
  const auto fresh = drawn(range(0, data.size()));
  keep_only(kept);
  add(data, fresh, quota.stage, team);
}

void ReplayBuffer::add(const SampleSet& data, const std::vector<int64_t>& rows, int stage, const Team& team) {
  GrowingBytes pictures;
  if (bytes() > 0) pictures.append(pictures_.data_ptr<uint8_t>(), static_cast<size_t>(bytes()));
  auto ends = ends_;
  std::vector<SampleInfo> texts;
  std::vector<PictureFile> files;
  const Walk walk{cat("keep samples of ", data.name), static_cast<int64_t>(rows.size()), 64, false};
  each_block(walk, team, [&](Part part, Part) {
    for (int64_t k = part.begin; k < part.end; ++k) {
      const int64_t row = rows[static_cast<size_t>(k)];
      auto file = options_.keep == KeepPictures::files ? data.picture_file(row) : PictureFile{};
      const auto picture = file.path.empty() ? data.picture_bytes(row) : std::string();
      pictures.append(picture.data(), picture.size());
      ends.push_back(static_cast<int64_t>(pictures.size()));
      files.push_back(std::move(file));
      texts.push_back(data.info(row));
      texts.back().stage = stage;
    }
  });
  // Nothing has changed until here, where the walk may be interrupted.
  const bool first = size() == 0;
  set_.reset();
  pictures_ = pictures.taken();
  ends_ = std::move(ends);
  const auto index = torch::tensor(rows, at::kLong);
  const auto known = data.posterior.defined() ? data.posterior.cpu().index_select(0, index) : torch::Tensor();
  posterior_ = below(posterior_, known, first);
  info_.insert(info_.end(), texts.begin(), texts.end());
  files_.insert(files_.end(), files.begin(), files.end());
}

void ReplayBuffer::keep_only(const std::vector<int64_t>& rows) {
  GrowingBytes pictures;
  std::vector<SampleInfo> texts;
  std::vector<PictureFile> files;
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const int64_t i : rows) {
    check(i >= 0 && i < size(), "there is no sample ", i, " among ", size(), " kept ones");
    const int64_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i) - 1],
                  length = ends_[static_cast<size_t>(i)] - begin;
    pictures.append(pictures_.data_ptr<uint8_t>() + begin, static_cast<size_t>(length));
    end += length;
    ends.push_back(end);
    texts.push_back(info(i));
    files.push_back(files_[static_cast<size_t>(i)]);
  }
  pictures_ = pictures.taken();
  if (posterior_.defined()) posterior_ = posterior_.index_select(0, torch::tensor(rows, at::kLong));
  ends_ = std::move(ends);
  info_ = std::move(texts);
  files_ = std::move(files);
  set_.reset();
}

void ReplayBuffer::open(const SampleSet& like) {
  set_.reset();
  if (size() == 0) return;
  // The bytes are shared with the buffer, not copied.
  const auto picture = [pictures = pictures_, ends = ends_, files = files_, ids = info_](int64_t i) {
    const auto k = static_cast<size_t>(i);
    if (!files[k].path.empty()) return read_picture(files[k].path, files[k].frames);
    const int64_t begin = i == 0 ? 0 : ends[k - 1];
    const ByteSpan bytes{pictures.data_ptr<uint8_t>() + begin, static_cast<size_t>(ends[k] - begin)};
    if (bytes.size == 0) return Image8{};
    return decode_image(bytes, cat("kept picture of ", ids[k].id));
  };
  set_ = like.made_of(info_, picture);
  set_->name = "replay";
  const bool known = posterior_.defined() && like.posterior.defined();
  set_->posterior = known ? posterior_.to(like.posterior.device()) : posterior_;
}

SampleSet& ReplayBuffer::samples() const {
  check(set_ != nullptr, "the replay buffer was not opened");
  return *set_;
}

std::vector<int64_t> ReplayBuffer::draw(int64_t wanted, uint64_t key) const {
  auto rows = range(0, size());
  Random({key, 0xe4}).shuffle(rows);
  rows.resize(static_cast<size_t>(std::min(wanted, size())));
  return rows;
}

SampleBatch ReplayBuffer::rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  return samples().training_rows(index, augment);
}

void ReplayBuffer::state(StateVisitor& visitor) {
  auto ends = torch::tensor(ends_, at::kLong);
  std::vector<int64_t> stage_list;
  for (const auto& s : info_) stage_list.push_back(s.stage);
  auto stages = torch::tensor(stage_list, at::kLong);
  auto texts = buffer_texts(info_, files_);
  visitor.tensor("pictures", StateKind::sample, pictures_);
  visitor.tensor("picture_ends", StateKind::sample, ends);
  visitor.tensor("posterior", StateKind::sample, posterior_);
  visitor.text("texts", StateKind::question, texts);
  visitor.tensor("stage", StateKind::sample, stages);
  take_state(ends, stages, texts);
}

// What a visitor may have put in place of what was there: checked, since a file may have been damaged.
void ReplayBuffer::take_state(const torch::Tensor& ends, const torch::Tensor& stages, const std::string& texts) {
  read_buffer_texts(texts, info_, files_);
  const auto numbers = [&](const torch::Tensor& t, const char* what) {
    check(t.defined() && t.dim() == 1 && t.scalar_type() == at::kLong && t.numel() == size(), kDamaged, what, " of ",
          size(), " samples are not there");
    const auto flat = t.cpu().contiguous();
    return std::vector<int64_t>(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel());
  };
  ends_ = numbers(ends, "pictures");
  const auto list = numbers(stages, "stages");
  for (size_t i = 0; i < info_.size(); ++i) info_[i].stage = static_cast<int>(list[i]);
  if (pictures_.defined()) pictures_ = pictures_.cpu().contiguous();
  if (posterior_.defined()) posterior_ = posterior_.cpu();
  check(!pictures_.defined() || (pictures_.dim() == 1 && pictures_.scalar_type() == at::kByte), kDamaged,
        "its pictures are no bytes");
  int64_t before = 0;
  for (const int64_t end : ends_) {
    check(end >= before, kDamaged, "a picture ends before it begins");
    before = end;
  }
  check(before == bytes(), kDamaged, bytes(), " bytes of pictures, where ", before, " were kept");
  check(!posterior_.defined() || (posterior_.dim() == 2 && posterior_.size(0) == size()), kDamaged,
        "posteriors of another number of samples");
}

}  // namespace asr
