#include "io/tokenizers/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace asr {

void Vocabulary::add(const std::string& piece, int64_t id, const std::string& origin) {
  check(id >= 0 && id < INT32_MAX, origin, ": token '", printable(piece), "' has the absurd id ", id);
  const auto [at, is_new] = ids_.emplace(piece, id);
  check(is_new || at->second == id, origin, ": token '", printable(piece), "' has two ids, ", at->second, " and ", id);
  if (!is_new) return;
  const auto [other, is_free] = pieces_.emplace(id, piece);
  check(is_free, origin, ": tokens '", printable(other->second), "' and '", printable(piece), "' share id ", id);
  size_ = std::max(size_, id + 1);
  longest_ = std::max(longest_, piece.size());
}

}  // namespace asr
