// SHA-256 of large files, each read once: a hash is kept in a small file together with the file's size, times, inode
// and device, and counts as long as none of these has changed. (Somebody who can set the clock back can deceive it.)
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace asr {

class ContentHashes {
 public:
  // Takes over what `cache` knows; a cache that is absent or damaged knows nothing. Empty: none is kept.
  explicit ContentHashes(std::string cache);

  // The hashes of files, in order; those not known are read by several threads, with a progress line where it takes
  // long. A file that cannot be read, or changes meanwhile, is an error.
  std::vector<std::string> of(const std::vector<std::string>& paths, const std::string& title);
  std::string of(const std::string& path, const std::string& title) { return of(std::vector{path}, title)[0]; }

  void save() const;  // does nothing where nothing was learnt

 private:
  struct Known {
    std::vector<int64_t> stamp;  // size, times, inode, device
    std::string sha256;
  };

  std::string cache_;
  bool changed_ = false;
  std::map<std::string, Known> files_;
};

}  // namespace asr
