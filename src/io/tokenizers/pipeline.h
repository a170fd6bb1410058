// The one tokenizer behind every file format: added tokens, normaliser, pre-tokenizer, model and decoder in a row.
#pragma once

#include <set>

#include "io/tokenizers/added_tokens.h"

namespace asr {

class PipelineTokenizer : public Tokenizer {
 public:
  struct Parts {
    std::string origin;  // the file, for messages
    std::unique_ptr<TokenModel> model;
    Normalizer normalize;
    PreTokenizer split;
    std::vector<DecoderStep> decoder;
  };
  explicit PipelineTokenizer(Parts parts) : parts_(std::move(parts)) {}

  // A token that is there already is left as it is: the first file that names it decides its flags.
  void add(const AddedToken& token, const std::string& origin);

  std::vector<Token> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids, bool skip_special) const override;
  std::optional<int64_t> find(const std::string& piece) const override;
  bool is_special(int64_t id) const override { return special_.count(id) > 0; }
  bool knows(int64_t id) const override;
  int64_t size() const override { return std::max(added_.size(), parts_.model->vocabulary.size()); }

 private:
  Characters normalized(const Characters& text) const;
  void encode_plain(const Characters& text, std::vector<Token>& out) const;

  Parts parts_;
  Vocabulary added_;
  AddedTokens raw_, normalized_;  // looked for before and after normalisation
  std::set<int64_t> special_;
};

// The tokens of `extra` go in beside the file's own.
std::unique_ptr<PipelineTokenizer> build_from_json(const std::string& text, const std::string& path,
                                                   const std::vector<AddedToken>& extra);
std::unique_ptr<PipelineTokenizer> build_from_sentencepiece(ByteSpan bytes, const std::string& path,
                                                            const std::vector<AddedToken>& extra);
// vocab.json and merges.txt of a folder, whose tokenizer_config.json says which of GPT-2's kind it is.
std::unique_ptr<PipelineTokenizer> build_from_vocabulary(const std::string& folder,
                                                         const std::vector<AddedToken>& extra);
// From a parsed tokenizer.json.
std::unique_ptr<PipelineTokenizer> build_from_parts(const nlohmann::json& value, const std::string& path,
                                                    const std::vector<AddedToken>& extra);

// JSON of a limited depth, so that no reader of it can run out of stack; errors name the file.
nlohmann::json parse_tokenizer_json(const std::string& text, const std::string& path);
AddedToken added_token_from_json(const nlohmann::json& value, int64_t id);

}  // namespace asr
