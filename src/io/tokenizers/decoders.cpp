// Decoders of tokenizer.json: each step turns a list of pieces into another; at the end they are joined.
#include "base/error.h"
#include "base/text.h"
#include "io/tokenizers/parts.h"

namespace asr {
namespace {

using nlohmann::json;
using Pieces = std::vector<std::string>;

std::string replaced(const std::string& text, const std::string& from, const std::string& to, size_t most = SIZE_MAX,
                     const std::string& what = "") {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool here = text.compare(i, from.size(), from) == 0;
    if (here)
      out += to;
    else
      out += text[i];
    i += here ? from.size() : 1;
    check_growth(out.size(), most, what);
  }
  return out;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

Pieces fuse(const Pieces& pieces, size_t) {
  return {join(pieces, "")};
}

// Runs of byte pieces become text where they are UTF-8, else one U+FFFD a byte.
Pieces byte_fallback(const Pieces& pieces, size_t) {
  Pieces out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\xef\xbf\xbd");
    bytes.clear();
  };
  for (const auto& piece : pieces) {
    const int byte = byte_piece(piece);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    out.push_back(piece);
  }
  flush();
  return out;
}

// A piece with any character outside the alphabet (an added token) stands for itself.
Pieces byte_level(const Pieces& pieces, size_t) {
  std::string bytes, one;
  for (const auto& piece : pieces) {
    one.clear();
    for (const auto& c : decode_utf8(piece)) {
      const int byte = character_byte(c.code);
      if (byte < 0) {
        one = piece;
        break;
      }
      one += static_cast<char>(byte);
    }
    bytes += one;
  }
  return {valid_utf8(bytes)};
}

DecoderStep strip(const json& value) {
  const auto content = member<std::string>(value, "content", " ");
  const auto start = member<size_t>(value, "start", 0), stop = member<size_t>(value, "stop", 0);
  return [=](Pieces pieces, size_t) {
    for (auto& piece : pieces) {
      size_t begin = 0, end = piece.size();
      const auto fits = [&](size_t at) {
        return !content.empty() && end - begin >= content.size() && piece.compare(at, content.size(), content) == 0;
      };
      for (size_t i = 0; i < start && fits(begin); ++i) begin += content.size();
      for (size_t i = 0; i < stop && fits(end - content.size()); ++i) end -= content.size();
      piece = piece.substr(begin, end - begin);
    }
    return pieces;
  };
}

DecoderStep metaspace(const json& value) {
  const auto mark = member<std::string>(value, "replacement", "\xe2\x96\x81");
  const bool prefix =
      member<std::string>(value, "prepend_scheme", "always") != "never" && member(value, "add_prefix_space", true);
  return [=](Pieces pieces, size_t) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i == 0 && prefix && starts_with(pieces[i], mark)) pieces[i].erase(0, mark.size());
      pieces[i] = replaced(pieces[i], mark, " ");
    }
    return pieces;
  };
}

// English punctuation and contractions lose the space before them, as Hugging Face's clean-up does.
std::string cleaned(std::string text) {
  static const char* const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                         {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                         {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& rule : rules) text = replaced(text, rule[0], rule[1]);
  return text;
}

DecoderStep word_piece(const json& value) {
  const auto prefix = member<std::string>(value, "prefix", "##");
  const bool cleanup = member(value, "cleanup", true);
  return [=](Pieces pieces, size_t) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) pieces[i] = starts_with(pieces[i], prefix) ? pieces[i].substr(prefix.size()) : " " + pieces[i];
      if (cleanup) pieces[i] = cleaned(pieces[i]);
    }
    return pieces;
  };
}

DecoderStep replace_step(const json& value, const std::string& what) {
  const auto from = value.at("pattern").value("String", std::string()), to = value.at("content").get<std::string>();
  check(!from.empty(), what, ": a Replace decoder without a plain string as its pattern is not supported");
  check(from.size() <= kLongestPattern, what, ": a Replace decoder has a pattern of ", from.size(), " bytes; at most ",
        kLongestPattern, " are supported");
  return [=](Pieces pieces, size_t most) {
    size_t size = 0;
    for (auto& piece : pieces) {
      piece = replaced(piece, from, to, most, what);
      size += piece.size();
      check_growth(size, most, what);
    }
    return pieces;
  };
}

}  // namespace

int byte_piece(const std::string& piece) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  if (piece.size() != 6 || piece.compare(0, 3, "<0x") != 0 || piece[5] != '>') return -1;
  const int high = digit(piece[3]), low = digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string byte_piece_name(uint8_t byte) {
  const char* const digits = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">";
}

std::vector<DecoderStep> make_decoder(const json& value, const std::string& what) {
  if (value.is_null())  // pieces with spaces between them, as Hugging Face prints them
    return {[](const Pieces& pieces, size_t) { return Pieces{join(pieces, " ")}; }};
  const auto type = type_of(value, what);
  if (type == "Sequence") {
    std::vector<DecoderStep> out;
    for (const auto& part : value.at("decoders"))
      for (auto& step : make_decoder(part, what)) out.push_back(std::move(step));
    return out;
  }
  if (type == "Replace") return {replace_step(value, what)};
  if (type == "ByteFallback") return {byte_fallback};
  if (type == "Fuse") return {fuse};
  if (type == "Strip") return {strip(value)};
  if (type == "ByteLevel") return {byte_level};
  if (type == "Metaspace") return {metaspace(value)};
  if (type == "WordPiece") return {word_piece(value)};
  fail(what, ": decoder '", printable(type), "' is not supported",
       did_you_mean(type,
                    {"Sequence", "Replace", "ByteFallback", "Fuse", "Strip", "ByteLevel", "Metaspace", "WordPiece"}));
}

}  // namespace asr
