// Text to token ids and back, for the vocabularies of language models: Hugging Face's tokenizer.json (byte-level BPE,
// LLaMA's BPE with byte fallback, WordPiece) and SentencePiece's tokenizer.model (BPE). Templates such as <s> at the
// beginning are never added; special tokens that stand in the text are recognised, as Hugging Face does. Text that is
// not UTF-8 is read with U+FFFD in place of the wrong bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/mapped_file.h"

namespace asr {

struct Token {
  int64_t id = 0;
  size_t begin = 0, end = 0;  // bytes of the text it stands for; empty for an inserted prefix
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::vector<Token> encode(const std::string& text) const = 0;
  // An id outside the vocabulary is an error. `skip_special` leaves out tokens marked as special.
  virtual std::string decode(const std::vector<int64_t>& ids, bool skip_special = false) const = 0;

  // The id of a piece exactly as the vocabulary spells it: "<image>", "<|im_end|>".
  virtual std::optional<int64_t> find(const std::string& piece) const = 0;
  virtual bool is_special(int64_t id) const = 0;
  virtual bool knows(int64_t id) const = 0;
  virtual int64_t size() const = 0;  // largest id + 1: the rows an embedding must have at least

  // What a model wrote, for people: without special tokens, and without numbers that only its embedding has (those are
  // often padded to a round size).
  std::string decode_answer(const std::vector<int64_t>& ids) const;
  int64_t id_of(const std::string& piece) const;  // an error where find() has nothing
};

// DIR/tokenizer.json, else DIR/tokenizer.model, else DIR/vocab.json with DIR/merges.txt; with the tokens that
// added_tokens.json and tokenizer_config.json add.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& model_dir);

// One file; `path` goes into error messages.
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& path);
std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(ByteSpan bytes, const std::string& path);

// vocab.json and merges.txt, cut into words as `tokenizer_class` does; `folder` goes into error messages.
std::unique_ptr<Tokenizer> tokenizer_from_vocabulary(const std::string& vocabulary, const std::string& merges,
                                                     const std::string& tokenizer_class, const std::string& folder);

// A text as one line and back: \n stands for a newline, \\ for a backslash; any other backslash for itself.
std::string escape_line(const std::string& text);
std::string unescape_line(const std::string& line);

}  // namespace asr
