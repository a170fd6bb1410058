// The tokenizer of the built-in backbones: whole words where the vocabulary has them, characters elsewhere, so that
// every ASCII text can be written. A piece that follows the previous one without a space is marked "##".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/tokenizer.h"

namespace asr {

class WordTokenizer final : public Tokenizer {
 public:
  static constexpr int64_t kPadding = 0, kEnd = 1, kAnswer = 2, kUnknown = 3;

  WordTokenizer() = default;
  // Special pieces and single characters first, then every other piece of `texts`, sorted.
  static WordTokenizer from_texts(const std::vector<std::string>& texts);
  static WordTokenizer from_pieces(std::vector<std::string> pieces, const std::string& origin);

  std::vector<Token> encode(const std::string& text) const override;
  // Special pieces are left out in any case: they have no text.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special = true) const override;
  std::optional<int64_t> find(const std::string& piece) const override;
  bool is_special(int64_t id) const override { return id >= 0 && id <= kUnknown; }
  bool knows(int64_t id) const override { return id >= 0 && id < size(); }
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }

  const std::vector<std::string>& pieces() const { return pieces_; }

 private:
  std::vector<std::string> pieces_;
  std::map<std::string, int64_t> ids_;
};

}  // namespace asr
