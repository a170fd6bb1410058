#include "base/content_hashes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/sha256.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t kWorthALine = int64_t{1} << 30;  // bytes that take seconds to read and hash
constexpr int64_t kMegabyte = 1 << 20;
constexpr size_t kStampNumbers = 5;

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

std::vector<int64_t> stamp_of(const struct stat& info) {
  return {static_cast<int64_t>(info.st_size), nanoseconds(info.st_mtim), nanoseconds(info.st_ctim),
          static_cast<int64_t>(info.st_ino), static_cast<int64_t>(info.st_dev)};
}

std::vector<int64_t> stamp_at(const std::string& path) {
  struct stat info;
  const bool found = stat(path.c_str(), &info) == 0;
  check(found, path, ": ", std::strerror(errno));
  check(S_ISREG(info.st_mode), path, ": is not a regular file");
  return stamp_of(info);
}

// An open file that closes itself.
struct OpenFile {
  explicit OpenFile(const std::string& path) : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    const int reason = errno;
    check(descriptor >= 0, path, ": cannot be read: ", std::strerror(reason));
  }
  ~OpenFile() { close(descriptor); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor;
};

// Hashes a list of files; any number of threads call take().
class HashWork {
 public:
  void add(const std::string& path, std::vector<int64_t> stamp) {
    bytes_ += stamp[0];
    files.push_back({path, std::move(stamp), ""});
  }

  void run(const std::string& title) {
    if (bytes_ >= kWorthALine) progress_ = std::make_unique<Progress>("reading " + title + ", MB", bytes_ / kMegabyte);
    const size_t count = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), files.size());
    std::vector<std::thread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back([this] { take(); });
    take();
    for (auto& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    if (progress_) progress_->finish();
  }

  struct File {
    std::string path;
    std::vector<int64_t> stamp;
    std::string sha256;
  };
  std::vector<File> files;

 private:
  void take() {
    for (size_t i = next_++; i < files.size(); i = next_++) {
      try {
        hash(files[i]);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = files.size();
      }
    }
  }

  // Read, not mapped: a file cut short meanwhile must not end the process.
  void hash(File& file) {
    const OpenFile open_file(file.path);
    std::vector<char> buffer(kMegabyte);
    Sha256 sum;
    for (;;) {
      const ssize_t count = read(open_file.descriptor, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_system(file.path, ": cannot be read: ", std::strerror(errno));
      if (count == 0) break;
      sum.update(buffer.data(), static_cast<size_t>(count));
      advance(count);
    }
    check(stamp_at(file.path) == file.stamp, file.path, ": is being changed; wait until it is whole");
    file.sha256 = sum.hex();
  }

  void advance(int64_t count) {
    if (!progress_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    unshown_ += count;
    progress_->advance(unshown_ / kMegabyte);
    unshown_ %= kMegabyte;
  }

  int64_t bytes_ = 0, unshown_ = 0;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace

ContentHashes::ContentHashes(std::string cache) : cache_(std::move(cache)) {
  if (cache_.empty() || !path_exists(cache_)) return;
  json stored;
  JsonProblem ignored;
  if (!try_parse_json(read_file(cache_, size_t{4} << 30), stored, ignored)) return;
  try {
    Sha256 hash;
    hash.update(stored.at("files").dump());
    if (stored.at("sha256").get<std::string>() != hash.hex()) return;
    for (const auto& [path, value] : stored["files"].items()) {
      Known known{value.at(0).get<std::vector<int64_t>>(), value.at(1).get<std::string>()};
      if (known.stamp.size() == kStampNumbers) files_[path] = std::move(known);
    }
  } catch (const json::exception&) {
    files_.clear();
  }
}

std::vector<std::string> ContentHashes::of(const std::vector<std::string>& paths, const std::string& title) {
  HashWork work;
  std::set<std::string> seen;
  for (const auto& path : paths) {
    if (!seen.insert(path).second) continue;
    auto stamp = stamp_at(path);
    const auto place = files_.find(path);
    if (place == files_.end() || place->second.stamp != stamp) work.add(path, std::move(stamp));
  }
  work.run(title);
  for (const auto& file : work.files) files_[file.path] = {file.stamp, file.sha256};
  changed_ = changed_ || !work.files.empty();
  std::vector<std::string> out;
  for (const auto& path : paths) out.push_back(files_.at(path).sha256);
  return out;
}

void ContentHashes::save() const {
  if (cache_.empty() || !changed_) return;
  auto files = json::object();
  for (const auto& [path, known] : files_) files[path] = {known.stamp, known.sha256};
  const auto text = [](const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
  Sha256 hash;
  hash.update(text(files));
  write_file_atomically(cache_, text({{"files", files}, {"sha256", hash.hex()}}) + "\n");
}

}  // namespace asr
