// Models of tokenizer.json: byte-pair encoding by a list of merges, and WordPiece.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "io/tokenizers/bpe.h"
#include "io/tokenizers/code_trie.h"
#include "io/tokenizers/parts.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kMostCuts = 256;      // each copies the pair; runs of spaces in real files are shorter
constexpr size_t kLongestWord = 4096;  // characters of a WordPiece word; Hugging Face's default is 100

void read_vocabulary(const json& value, const std::string& what, Vocabulary& out) {
  const auto at = value.find("vocab");
  check(at != value.end() && at->is_object() && !at->empty(), what,
        ": the model has no vocabulary; copy the tokenizer file again");
  for (const auto& [piece, id] : at->items()) {
    check(id.is_number_integer(), what, ": token '", printable(piece), "' has an id that is not a whole number");
    out.add(piece, id.get<int64_t>(), what);
  }
}

class MergeBpe : public TokenModel {
 public:
  MergeBpe(const json& value, const std::string& what) {
    read_vocabulary(value, what, vocabulary);
    prefix_ = member<std::string>(value, "continuing_subword_prefix", "");
    suffix_ = member<std::string>(value, "end_of_word_suffix", "");
    check(prefix_.size() + suffix_.size() <= kLongestPattern, what,
          ": continuing_subword_prefix or end_of_word_suffix is longer than ", kLongestPattern, " bytes");
    byte_fallback_ = member(value, "byte_fallback", false);
    fuse_unknown_ = member(value, "fuse_unk", false);
    whole_words_ = member(value, "ignore_merges", false);
    const auto unknown = member<std::string>(value, "unk_token", "");
    if (!unknown.empty()) unknown_ = vocabulary.find(unknown);
    for (int b = 0; b < 256; ++b) bytes_[b] = vocabulary.find(byte_piece_name(static_cast<uint8_t>(b)));
    read_merges(value, what);
  }

  void encode(const Characters& word, std::vector<Token>& out) const override {
    if (word.empty()) return;
    if (whole_words_) {
      const int64_t id = vocabulary.find(encode_utf8(word));
      if (id >= 0) return out.push_back({id, word.front().begin, std::max(word.front().begin, word.back().end)});
    }
    std::vector<Token> places;  // the first symbols, with their places in the text
    for (size_t i = 0; i < word.size(); ++i) append_character(word, i, places);
    std::vector<Symbol> symbols;
    for (size_t i = 0; i < places.size(); ++i) symbols.push_back({places[i].id, i, i + 1});
    const auto find = [this](const Symbol& a, const Symbol& b) {
      const auto at = merges_.find(key(a.id, b.id));
      return at == merges_.end() ? Merge{} : at->second;
    };
    for (const auto& s : merge_pairs(symbols, find)) {
      const size_t begin = places[s.begin].begin;
      out.push_back({s.id, begin, std::max(begin, places[s.end - 1].end)});
    }
  }

 private:
  std::string prefix_, suffix_;
  bool byte_fallback_ = false, fuse_unknown_ = false, whole_words_ = false;
  int64_t unknown_ = -1;
  int64_t bytes_[256];
  std::unordered_map<uint64_t, Merge> merges_;

  static uint64_t key(int64_t a, int64_t b) { return static_cast<uint64_t>(a) << 32 | static_cast<uint64_t>(b); }

  // One symbol, or its bytes where the vocabulary lacks it, or the unknown token, or nothing: as Hugging Face.
  void append_character(const Characters& word, size_t i, std::vector<Token>& out) const {
    const auto& c = word[i];
    std::string piece;
    append_utf8(piece, c.code);
    const std::string bytes = piece;
    if (i > 0) piece = prefix_ + piece;
    if (i + 1 == word.size()) piece += suffix_;
    const int64_t id = vocabulary.find(piece);
    if (id >= 0) return out.push_back({id, c.begin, c.end});
    const auto known = [this](char b) { return bytes_[static_cast<uint8_t>(b)] >= 0; };
    if (byte_fallback_ && std::all_of(bytes.begin(), bytes.end(), known)) {
      const bool same = c.end - c.begin == bytes.size();
      for (size_t k = 0; k < bytes.size(); ++k)
        out.push_back(
            {bytes_[static_cast<uint8_t>(bytes[k])], same ? c.begin + k : c.begin, same ? c.begin + k + 1 : c.end});
      return;
    }
    if (unknown_ < 0) return;
    if (fuse_unknown_ && !out.empty() && out.back().id == unknown_)
      out.back().end = c.end;
    else
      out.push_back({unknown_, c.begin, c.end});
  }

  void read_merges(const json& value, const std::string& what) {
    const auto at = value.find("merges");
    check(at != value.end() && at->is_array(), what, ": the BPE model has no list of merges");
    int64_t rank = 0;
    for (const auto& entry : *at) {
      const auto place = what + ": merge " + std::to_string(rank);
      if (entry.is_array()) {
        check(entry.size() == 2, place, " is not a pair of pieces");
        add_merge(entry[0].get<std::string>(), entry[1].get<std::string>(), rank, &place);
      } else {
        add_written_merge(entry.get<std::string>(), rank, place);
      }
      ++rank;
    }
  }

  // "a b", as older files write a pair. A piece may itself hold a space (real files have the merge of a space and a
  // space), so the first cut that gives known pieces counts.
  void add_written_merge(const std::string& text, int64_t rank, const std::string& place) {
    const auto first = text.find(' ', 1);
    check(first != std::string::npos && first + 1 < text.size(), place, " ('", printable(text),
          "') is no pair of pieces");
    size_t tried = 0;
    for (auto cut = first; cut != std::string::npos && cut + 1 < text.size() && cut <= vocabulary.longest();
         cut = text.find(' ', cut + 1)) {
      if (text.size() - cut - 1 > vocabulary.longest()) continue;
      check(++tried <= kMostCuts, place, " ('", printable(text), "') could be cut at more than ", kMostCuts,
            " spaces; write the pair as a list of two pieces");
      if (add_merge(text.substr(0, cut), text.substr(cut + 1), rank, nullptr)) return;
    }
    add_merge(text.substr(0, first), text.substr(first + 1), rank, &place);
  }

  // False where a piece is missing; with `place`, an error that names it.
  bool add_merge(const std::string& left, const std::string& right, int64_t rank, const std::string* place) {
    const bool marked = !prefix_.empty() && right.compare(0, prefix_.size(), prefix_) == 0;
    const auto joined = left + (marked ? right.substr(prefix_.size()) : right);
    const int64_t a = vocabulary.find(left), b = vocabulary.find(right), id = vocabulary.find(joined);
    if (a >= 0 && b >= 0 && id >= 0) {
      merges_[key(a, b)] = {rank, id};
      return true;
    }
    if (!place) return false;
    fail(*place, " ('", printable(left), "' and '", printable(right), "') needs '",
         printable(a < 0   ? left
                   : b < 0 ? right
                           : joined),
         "', which the vocabulary lacks");
  }
};

class WordPiece : public TokenModel {
 public:
  WordPiece(const json& value, const std::string& what) {
    read_vocabulary(value, what, vocabulary);
    prefix_ = member<std::string>(value, "continuing_subword_prefix", "##");
    longest_word_ = member<size_t>(value, "max_input_chars_per_word", 100);
    check(longest_word_ <= kLongestWord, what, ": max_input_chars_per_word is ", longest_word_, "; at most ",
          kLongestWord, " are supported");
    const auto unknown = member<std::string>(value, "unk_token", "[UNK]");
    unknown_ = vocabulary.find(unknown);
    check(unknown_ >= 0, what, ": the vocabulary lacks its own unknown token '", printable(unknown), "'");
    for (const auto& [piece, id] : value.at("vocab").items()) {
      first_.add(decode_utf8(piece), id.get<int64_t>());
      if (piece.compare(0, prefix_.size(), prefix_) == 0)
        later_.add(decode_utf8(piece.substr(prefix_.size())), id.get<int64_t>());
    }
  }

  void encode(const Characters& word, std::vector<Token>& out) const override {
    if (word.empty()) return;
    const size_t before = out.size();
    for (size_t begin = 0; begin < word.size() && word.size() <= longest_word_;) {
      const size_t end = longest_piece(word, begin, out);
      if (end == begin) break;
      begin = end;
      if (begin == word.size()) return;
    }
    out.resize(before);  // one part that is not there makes the whole word unknown
    out.push_back({unknown_, word.front().begin, std::max(word.front().begin, word.back().end)});
  }

 private:
  std::string prefix_;
  size_t longest_word_ = 100;
  int64_t unknown_ = -1;

  CodeTrie first_, later_;  // pieces that may begin a word, and those that may go on, without their prefix

  size_t longest_piece(const Characters& word, size_t begin, std::vector<Token>& out) const {
    const auto match = (begin > 0 ? later_ : first_).longest(word, begin);
    if (match.end > begin)
      out.push_back({match.value, word[begin].begin, std::max(word[begin].begin, word[match.end - 1].end)});
    return match.end;
  }
};

}  // namespace

std::unique_ptr<TokenModel> make_token_model(const json& value, const std::string& what) {
  check(value.is_object(), what, ": no model; is this a tokenizer.json of Hugging Face?");
  // Files of old versions name no type; only BPE has merges.
  const auto type = value.contains("type") ? type_of(value, what) : value.contains("merges") ? "BPE" : "WordPiece";
  if (type == "BPE") return std::make_unique<MergeBpe>(value, what);
  if (type == "WordPiece") return std::make_unique<WordPiece>(value, what);
  fail(what, ": model type '", printable(type), "' is not supported; BPE and WordPiece are");
}

}  // namespace asr
