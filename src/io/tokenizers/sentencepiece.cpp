// SentencePiece's tokenizer.model, read from the protobuf wire format without that library (beside libtorch it crashes
// before main), and LLaMA's BPE: of all neighbours whose joined text is a piece, the best score merges first. Letters
// that are no piece become their bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "io/tokenizers/bpe.h"
#include "io/tokenizers/pipeline.h"

namespace asr {
namespace {

const char* const kSpace = "\xe2\x96\x81";

// One field after another of a protobuf message.
class WireReader {
 public:
  WireReader(ByteSpan bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  bool next() {
    if (at_ == bytes_.size) return false;
    value = 0;
    span = {};  // what an earlier field held must not pass for this one's
    const uint64_t tag = varint();
    field = tag >> 3;
    type = static_cast<int>(tag & 7);
    check(field > 0, path_, ": not a SentencePiece model (field number 0); copy the file again");
    if (type == 0)
      value = varint();
    else if (type == 1)
      take(8);
    else if (type == 2)
      span = take(varint());
    else if (type == 5)
      span = take(4);
    else
      fail(path_, ": not a SentencePiece model (wire type ", type, "); copy the file again");
    return true;
  }
  std::string text() const {
    return type == 2 ? std::string(reinterpret_cast<const char*>(span.data), span.size) : std::string();
  }
  float number() const {
    float out = 0;
    if (type == 5) std::memcpy(&out, span.data, 4);
    return out;
  }

  uint64_t field = 0, value = 0;
  int type = 0;
  ByteSpan span;

 private:
  uint64_t varint() {
    uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = *take(1).data;
      out |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return out;
    }
    fail(path_, ": not a SentencePiece model (a number of more than 64 bits); copy the file again");
  }
  ByteSpan take(uint64_t size) {
    check(size <= bytes_.size - at_, path_, ": the file is cut short or no SentencePiece model (", size,
          " bytes wanted, ", bytes_.size - at_, " left); copy it again");
    const ByteSpan out{bytes_.data + at_, static_cast<size_t>(size)};
    at_ += out.size;
    return out;
  }
  ByteSpan bytes_;
  std::string path_;
  size_t at_ = 0;
};

enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string text;
  float score = 0;
  uint64_t type = kNormal;
};

struct SentencePieceFile {
  std::vector<Piece> pieces;
  uint64_t model_type = 1;  // 1 unigram, 2 BPE
  bool byte_fallback = false;
  bool dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
  bool has_character_map = false;
};

Piece read_piece(ByteSpan bytes, const std::string& path) {
  Piece out;
  for (WireReader in(bytes, path); in.next();) {
    if (in.field == 1) out.text = in.text();
    if (in.field == 2) out.score = in.number();
    if (in.field == 3) out.type = in.value;
  }
  return out;
}

SentencePieceFile read_model(ByteSpan bytes, const std::string& path) {
  SentencePieceFile out;
  for (WireReader in(bytes, path); in.next();) {
    if (in.type != 2) continue;
    if (in.field == 1) out.pieces.push_back(read_piece(in.span, path));
    if (in.field == 2)
      for (WireReader trainer(in.span, path); trainer.next();) {
        if (trainer.field == 3) out.model_type = trainer.value;
        if (trainer.field == 35) out.byte_fallback = trainer.value != 0;
      }
    if (in.field == 3)
      for (WireReader rules(in.span, path); rules.next();) {
        if (rules.field == 2) out.has_character_map = rules.span.size > 0;
        if (rules.field == 3) out.dummy_prefix = rules.value != 0;
        if (rules.field == 4) out.remove_extra_spaces = rules.value != 0;
        if (rules.field == 5) out.escape_spaces = rules.value != 0;
      }
  }
  return out;
}

class ScoreBpe : public TokenModel {
 public:
  ScoreBpe(const SentencePieceFile& file, const std::string& path) {
    std::fill(std::begin(bytes_), std::end(bytes_), -1);
    std::map<float, int64_t> ranks;  // best score: rank 0; equal scores share one
    for (const auto& piece : file.pieces) ranks[-piece.score] = 0;
    int64_t next = 0;
    for (auto& entry : ranks) entry.second = next++;
    for (size_t i = 0; i < file.pieces.size(); ++i) {
      const auto& piece = file.pieces[i];
      const auto id = static_cast<int64_t>(i);
      vocabulary.add(piece.text, id, path);
      if (piece.type == kUnknown) unknown_ = id;
      const int byte = piece.type == kByte ? byte_piece(piece.text) : -1;
      if (byte >= 0) bytes_[byte] = id;
      ranks_.push_back(piece.type == kNormal || piece.type == kUserDefined ? ranks[-piece.score] : -1);
    }
    byte_fallback_ = file.byte_fallback;
    check(unknown_ >= 0, path, ": the vocabulary has no unknown piece");
    check(!byte_fallback_ || std::all_of(std::begin(bytes_), std::end(bytes_), [](int64_t id) { return id >= 0; }),
          path, ": the model wants byte fallback, but lacks pieces for some of the 256 bytes");
  }

  void encode(const Characters& word, std::vector<Token>& out) const override {
    std::string text;
    std::vector<size_t> starts;  // of every character in `text`, and its end
    for (const auto& c : word) {
      starts.push_back(text.size());
      append_utf8(text, c.code);
    }
    starts.push_back(text.size());
    const auto piece = [&](size_t begin, size_t end) -> int64_t {
      if (starts[end] - starts[begin] > vocabulary.longest()) return -1;
      const int64_t id = vocabulary.find(text.substr(starts[begin], starts[end] - starts[begin]));
      return id >= 0 && ranks_[static_cast<size_t>(id)] >= 0 ? id : -1;
    };
    std::vector<Symbol> symbols;
    for (size_t i = 0; i < word.size(); ++i) symbols.push_back({piece(i, i + 1), i, i + 1});
    const auto find = [&](const Symbol& a, const Symbol& b) {
      const int64_t id = piece(a.begin, b.end);
      return id < 0 ? Merge{} : Merge{ranks_[static_cast<size_t>(id)], id};
    };
    bool after_unknown = false;
    for (const auto& s : merge_pairs(symbols, find)) {
      const size_t begin = word[s.begin].begin, end = std::max(begin, word[s.end - 1].end);
      if (s.id >= 0)
        out.push_back({s.id, begin, end});
      else if (byte_fallback_)
        append_bytes(text.substr(starts[s.begin], starts[s.end] - starts[s.begin]), begin, end, out);
      else if (after_unknown)
        out.back().end = end;  // neighbours share one unknown token
      else
        out.push_back({unknown_, begin, end});
      after_unknown = s.id < 0 && !byte_fallback_;
    }
  }

 private:
  std::vector<int64_t> ranks_;  // by id; -1: not for merging
  int64_t unknown_ = -1;
  int64_t bytes_[256];  // ids of the byte pieces
  bool byte_fallback_ = false;

  void append_bytes(const std::string& bytes, size_t begin, size_t end, std::vector<Token>& out) const {
    const bool same = end - begin == bytes.size();
    for (size_t k = 0; k < bytes.size(); ++k)
      out.push_back({bytes_[static_cast<uint8_t>(bytes[k])], same ? begin + k : begin, same ? begin + k + 1 : end});
  }
};

// Spaces at the ends go, runs of them become one, as SentencePiece does when a model asks for it.
Characters without_extra_spaces(const Characters& text) {
  Characters out;
  for (const auto& c : text)
    if (c.code != ' ' || (!out.empty() && out.back().code != ' ')) out.push_back(c);
  if (!out.empty() && out.back().code == ' ') out.pop_back();
  return out;
}

Normalizer normalizer_of(const SentencePieceFile& file) {
  const auto mark = decode_utf8(kSpace);
  return [=, extra = file.remove_extra_spaces, prefix = file.dummy_prefix, escape = file.escape_spaces](Characters text,
                                                                                                        size_t) {
    if (extra) text = without_extra_spaces(text);
    if (prefix) text = prepend(std::move(text), " ");
    return escape ? replace(text, {{' ', 0, 0}}, mark) : text;
  };
}

std::vector<DecoderStep> decoder_of(const SentencePieceFile& file, const std::string& path) {
  using nlohmann::json;
  json steps = json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}});
  if (file.dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}});
  return make_decoder({{"type", "Sequence"}, {"decoders", steps}}, path);
}

// Pieces that a vocabulary keeps free: InternLM2 gives the numbers of some to <|im_start|> and the like.
bool stands_for_nothing(const SentencePieceFile& file, int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(file.pieces.size())) return false;
  const auto& piece = file.pieces[static_cast<size_t>(id)];
  return piece.type == kUnused || piece.text.rfind("[UNUSED_TOKEN_", 0) == 0;
}

}  // namespace

std::unique_ptr<PipelineTokenizer> build_from_sentencepiece(ByteSpan bytes, const std::string& path,
                                                            const std::vector<AddedToken>& extra) {
  check(bytes.size > 0, path, ": the file is empty; copy it again");
  const auto file = read_model(bytes, path);
  check(!file.pieces.empty(), path, ": no pieces; is this a SentencePiece model?");
  check(file.model_type == 2, path, ": a SentencePiece model of type ", file.model_type,
        " is not supported, only BPE (2) is; take the model's tokenizer.json");
  check(!file.has_character_map, path,
        ": its normaliser has a character map, which is not supported; take the model's tokenizer.json");
  for (const auto& piece : file.pieces)
    check(!piece.text.empty() && is_utf8(piece.text) && std::isfinite(piece.score), path, ": piece '",
          printable(piece.text), "' is empty, not UTF-8 or without a finite score; copy the file again");
  PipelineTokenizer::Parts parts;
  parts.origin = path;
  parts.model = std::make_unique<ScoreBpe>(file, path);
  parts.normalize = normalizer_of(file);
  parts.split = make_pre_tokenizer({}, path);
  parts.decoder = decoder_of(file, path);
  auto out = std::make_unique<PipelineTokenizer>(std::move(parts));
  std::set<int64_t> replaced;
  for (auto token : extra) {
    token.normalized = false;  // Hugging Face looks for them in the text itself here, whatever they say
    token.replaces = stands_for_nothing(file, token.id);
    if (token.replaces) replaced.insert(token.id);
    out->add(token, path);
  }
  for (size_t i = 0; i < file.pieces.size(); ++i) {
    const auto& piece = file.pieces[i];
    if (piece.type != kControl && piece.type != kUnknown && piece.type != kUserDefined) continue;
    if (replaced.count(static_cast<int64_t>(i))) continue;
    AddedToken token;
    token.content = piece.text;
    token.id = static_cast<int64_t>(i);
    token.special = piece.type != kUserDefined;
    // SentencePiece cuts these out of the text that has its marks already, so no second prefix follows them.
    token.normalized = token.verbatim = piece.type == kUserDefined;
    out->add(token, path);
  }
  return out;
}

}  // namespace asr
