// The parts of a tokenizer, after Hugging Face's pipeline: added tokens are cut out of the text, what lies between is
// normalised, split into words, and each word goes through the model; decoding runs pieces through decoder steps. Each
// part is built from its JSON description; an unknown kind is an error that names it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/tokenizer.h"
#include "io/tokenizers/vocabulary.h"
#include "io/unicode.h"

namespace asr {

// Forty steps that double a text make 2^40 characters of one, so that every step knows how many there may be at `most`,
// in bytes for decoders. It is an error to make more.
using Normalizer = std::function<Characters(Characters text, size_t most)>;
// Words in, finer words out. A word's characters may change (a space becomes a mark), but keep their places.
using PreTokenizer = std::function<std::vector<Characters>(std::vector<Characters> words, size_t most)>;
using DecoderStep = std::function<std::vector<std::string>(std::vector<std::string> pieces, size_t most)>;

// Decomposing and writing bytes make up to about ten characters of one, and a mark goes before the first.
constexpr size_t most_characters(size_t characters) {
  return 32 * characters + 64;
}
void check_growth(size_t size, size_t most, const std::string& what);

// Every place of a text may be compared with the whole of a pattern, so that its length is a factor of the time.
constexpr size_t kLongestPattern = 1024;  // characters or bytes; real ones have a few

// A part may be a sequence of parts, each of which goes over the whole text.
constexpr size_t kMostSteps = 100;
void check_steps(const nlohmann::json& value, const char* list, const std::string& what);

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void encode(const Characters& word, std::vector<Token>& out) const = 0;
  Vocabulary vocabulary;
};

struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;
  bool single_word = false;             // only where no word character touches it
  bool lstrip = false, rstrip = false;  // takes the spaces before, after it along
  bool normalized = true;               // looked for after normalisation
  bool replaces = false;                // takes the number of a piece that stands for nothing
  bool verbatim = false;                // looked for after normalisation, but not normalised itself
};

// `what` begins error messages: the file and the place in it.
Normalizer make_normalizer(const nlohmann::json& value, const std::string& what);
PreTokenizer make_pre_tokenizer(const nlohmann::json& value, const std::string& what);
std::vector<DecoderStep> make_decoder(const nlohmann::json& value, const std::string& what);
std::unique_ptr<TokenModel> make_token_model(const nlohmann::json& value, const std::string& what);

// The kinds that the SentencePiece reader shares.
Characters prepend(Characters text, const std::string& prefix);
Characters replace(const Characters& text, const Characters& pattern, const Characters& content, size_t most = SIZE_MAX,
                   const std::string& what = "");

// The word of one byte in GPT-2's alphabet of printable characters, and back (-1: not in it).
uint32_t byte_character(uint8_t byte);
int character_byte(uint32_t code);
// "<0x0A>" as 10; -1 for other pieces.
int byte_piece(const std::string& piece);
std::string byte_piece_name(uint8_t byte);

// JSON members with a default, as the format leaves most of them out.
template <class T>
T member(const nlohmann::json& value, const char* name, T otherwise) {
  const auto at = value.find(name);
  return at == value.end() || at->is_null() ? otherwise : at->get<T>();
}
std::string type_of(const nlohmann::json& value, const std::string& what);  // its member "type"

}  // namespace asr
