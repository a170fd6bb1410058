// The tokenizer of the built-in backbones: whole words where the vocabulary has them, characters elsewhere, so that
// every ASCII text can be written. A piece that follows the previous one without a space is marked "##".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/tokenizer.h"

namespace asr {

class WordTokenizer {
 public:
  static constexpr int64_t kPadding = 0, kEnd = 1, kAnswer = 2, kUnknown = 3;

  WordTokenizer() = default;
  // Special pieces and single characters first, then every other piece of `texts`, sorted.
  static WordTokenizer from_texts(const std::vector<std::string>& texts);
  static WordTokenizer from_pieces(std::vector<std::string> pieces, const std::string& origin);

  std::vector<Token> encode(const std::string& text) const;
  std::string decode(const std::vector<int64_t>& ids) const;  // special pieces are left out

  const std::vector<std::string>& pieces() const { return pieces_; }
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  std::vector<std::string> pieces_;
  std::map<std::string, int64_t> ids_;
};

}  // namespace asr
