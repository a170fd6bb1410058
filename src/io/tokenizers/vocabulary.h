// Pieces and their ids, both ways. Ids may have gaps, as real files do.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace asr {

class Vocabulary {
 public:
  // A piece or an id that stands twice is an error; the same pair twice is not.
  void add(const std::string& piece, int64_t id, const std::string& origin);

  int64_t find(const std::string& piece) const {  // -1: not there
    const auto at = ids_.find(piece);
    return at == ids_.end() ? -1 : at->second;
  }
  const std::string* piece(int64_t id) const {  // null: not there
    const auto at = pieces_.find(id);
    return at == pieces_.end() ? nullptr : &at->second;
  }
  int64_t size() const { return size_; }       // largest id + 1
  size_t longest() const { return longest_; }  // bytes of the longest piece: no look-up need try more
  bool empty() const { return ids_.empty(); }

 private:
  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_map<int64_t, std::string> pieces_;
  int64_t size_ = 0;
  size_t longest_ = 0;
};

}  // namespace asr
