#include "io/word_tokenizer.h"

#include <set>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

struct Word {
  size_t begin, end;
  bool glued;  // no space before it
};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Runs of letters and digits; every other character alone.
std::vector<Word> split(const std::string& text) {
  std::vector<Word> out;
  bool glued = false;
  for (size_t i = 0; i < text.size();) {
    if (is_space(text[i])) {
      glued = false;
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (is_word_character(text[i]))
      while (end < text.size() && is_word_character(text[end])) ++end;
    out.push_back({i, end, glued});
    glued = true;
    i = end;
  }
  return out;
}

}  // namespace

WordTokenizer WordTokenizer::from_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> pieces = {"<pad>", "<end>", "<answer>", "<unknown>"};
  for (const char* mark : {"", "##"})
    for (char c = '!'; c <= '~'; ++c) pieces.push_back(std::string(mark) + c);
  std::set<std::string> known(pieces.begin(), pieces.end()), words;
  for (const auto& text : texts)
    for (const auto& word : split(text)) {
      const auto piece = (word.glued ? "##" : "") + text.substr(word.begin, word.end - word.begin);
      if (!known.count(piece)) words.insert(piece);
    }
  for (const auto& word : words)
    if (static_cast<unsigned char>(word.back()) < 0x80) pieces.push_back(word);
  return from_pieces(std::move(pieces), "vocabulary");
}

WordTokenizer WordTokenizer::from_pieces(std::vector<std::string> pieces, const std::string& origin) {
  check(pieces.size() > 4 && pieces[kPadding] == "<pad>" && pieces[kEnd] == "<end>" && pieces[kAnswer] == "<answer>" &&
            pieces[kUnknown] == "<unknown>",
        origin, ": the vocabulary does not begin with <pad>, <end>, <answer>, <unknown>");
  WordTokenizer out;
  for (const auto& piece : pieces) {
    check(!piece.empty(), origin, ": the vocabulary holds an empty piece");
    check(out.ids_.emplace(piece, static_cast<int64_t>(out.ids_.size())).second, origin, ": piece '", printable(piece),
          "' stands twice in the vocabulary");
  }
  out.pieces_ = std::move(pieces);
  return out;
}

std::vector<Token> WordTokenizer::encode(const std::string& text) const {
  std::vector<Token> out;
  for (const auto& word : split(text)) {
    const std::string mark = word.glued ? "##" : "";
    const auto whole = ids_.find(mark + text.substr(word.begin, word.end - word.begin));
    if (whole != ids_.end() && whole->second > kUnknown) {
      out.push_back({whole->second, word.begin, word.end});
      continue;
    }
    for (size_t i = word.begin; i < word.end; ++i) {
      const auto piece = ids_.find((i > word.begin ? "##" : mark) + text[i]);
      out.push_back({piece == ids_.end() ? kUnknown : piece->second, i, i + 1});
    }
  }
  return out;
}

std::optional<int64_t> WordTokenizer::find(const std::string& piece) const {
  const auto place = ids_.find(piece);
  return place == ids_.end() ? std::nullopt : std::make_optional(place->second);
}

std::string WordTokenizer::decode(const std::vector<int64_t>& ids, bool) const {
  std::string out;
  for (const int64_t id : ids) {
    check(id >= 0 && id < size(), "token ", id, " is outside the vocabulary of ", size());
    if (id <= kUnknown) continue;
    const auto& piece = pieces_[static_cast<size_t>(id)];
    if (piece.size() > 2 && piece.compare(0, 2, "##") == 0) {
      out += piece.substr(2);
    } else {
      if (!out.empty()) out += ' ';
      out += piece;
    }
  }
  return out;
}

}  // namespace asr
