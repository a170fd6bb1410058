#include "io/tokenizers/pipeline.h"

#include <algorithm>
#include <filesystem>

#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

Token whole(int64_t id, const Characters& text, size_t begin, size_t end) {
  return {id, text[begin].begin, std::max(text[begin].begin, text[end - 1].end)};
}

Characters slice(const Characters& text, size_t begin, size_t end) {
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

// Tokens that a model folder adds beside its tokenizer file: {"<image>": 32000}, or with flags in the configuration.
std::vector<AddedToken> tokens_of_folder(const std::string& folder) {
  std::vector<AddedToken> out;
  const auto read = [&](const char* name, const std::function<void(const json&, const std::string&)>& use) {
    const std::string path = folder + "/" + name;
    if (!path_exists(path)) return;
    const auto value = parse_tokenizer_json(read_file(path), path);
    try {
      use(value, path);
    } catch (const json::exception& error) {
      fail(path, ": an added token is not as expected: ", printable(error.what(), 120));
    }
  };
  read("tokenizer_config.json", [&](const json& value, const std::string& path) {
    check(value.is_object(), path, ": not a JSON object");
    const auto tokens = value.value("added_tokens_decoder", json::object());
    for (const auto& [key, token] : tokens.items()) {
      int64_t id = 0;
      check(parse_int(key, id), path, ": added token id '", printable(key), "' is not a number");
      out.push_back(added_token_from_json(token, id));
    }
  });
  read("added_tokens.json", [&](const json& value, const std::string& path) {
    check(value.is_object(), path, ": not a JSON object");
    for (const auto& [content, id] : value.items()) {
      AddedToken token;
      token.content = content;
      token.id = id.get<int64_t>();
      token.normalized = false;
      out.push_back(token);
    }
  });
  return out;
}

}  // namespace

std::string Tokenizer::decode_answer(const std::vector<int64_t>& ids) const {
  std::vector<int64_t> known;
  for (const int64_t id : ids)
    if (knows(id)) known.push_back(id);
  return trimmed(decode(known, /*skip_special=*/true));
}

int64_t Tokenizer::id_of(const std::string& piece) const {
  const auto id = find(piece);
  check(id.has_value(), "the tokenizer has no token '", printable(piece),
        "'; is it the tokenizer of this model, with its added tokens?");
  return *id;
}

void PipelineTokenizer::add(const AddedToken& token, const std::string& origin) {
  if (token.content.empty() || added_.find(token.content) >= 0) return;
  const int64_t known = parts_.model->vocabulary.find(token.content);
  check(known < 0 || known == token.id, origin, ": added token '", printable(token.content), "' has id ", token.id,
        ", but ", known, " in the vocabulary; do the files belong to one model?");
  const auto* other = parts_.model->vocabulary.piece(token.id);
  check(known >= 0 || !other || token.replaces, origin, ": added token '", printable(token.content),
        "' has the id of '", other ? printable(*other) : "", "'; do the files belong to one model?");
  added_.add(token.content, token.id, origin);
  if (token.special) special_.insert(token.id);
  const auto content = decode_utf8(token.content);
  if (token.normalized)
    normalized_.add(token, token.verbatim ? content : normalized(content), origin);
  else
    raw_.add(token, content, origin);
}

Characters PipelineTokenizer::normalized(const Characters& text) const {
  return parts_.normalize(text, most_characters(text.size()));
}

std::vector<Token> PipelineTokenizer::encode(const std::string& text) const {
  std::vector<Token> out;
  const auto characters = decode_utf8(text);
  for (const auto& part : raw_.split(characters)) {
    if (part.token)
      out.push_back(whole(part.token->id, characters, part.begin, part.end));
    else
      encode_plain(normalized(slice(characters, part.begin, part.end)), out);
  }
  return out;
}

void PipelineTokenizer::encode_plain(const Characters& text, std::vector<Token>& out) const {
  for (const auto& part : normalized_.split(text)) {
    if (part.token) {
      out.push_back(whole(part.token->id, text, part.begin, part.end));
      continue;
    }
    const size_t most = most_characters(part.end - part.begin);
    for (const auto& word : parts_.split({slice(text, part.begin, part.end)}, most)) parts_.model->encode(word, out);
  }
}

bool PipelineTokenizer::knows(int64_t id) const {
  return added_.piece(id) || parts_.model->vocabulary.piece(id);
}

std::string PipelineTokenizer::decode(const std::vector<int64_t>& ids, bool skip_special) const {
  std::vector<std::string> pieces;
  for (const int64_t id : ids) {
    const auto* piece = added_.piece(id);
    if (!piece) piece = parts_.model->vocabulary.piece(id);
    check(piece, "token ", id, " is not in the vocabulary of ", parts_.origin, " (", size(), " ids)");
    if (!skip_special || !is_special(id)) pieces.push_back(*piece);
  }
  size_t most = 0;
  for (const auto& piece : pieces) most += piece.size();
  most = most_characters(most);
  for (const auto& step : parts_.decoder) pieces = step(std::move(pieces), most);
  return join(pieces, "");
}

std::optional<int64_t> PipelineTokenizer::find(const std::string& piece) const {
  int64_t id = added_.find(piece);
  if (id < 0) id = parts_.model->vocabulary.find(piece);
  return id < 0 ? std::nullopt : std::optional<int64_t>(id);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& model_dir) {
  check_model_path(model_dir);
  std::error_code error;
  check(fs::is_directory(model_dir, error), model_dir, ": not a folder; --model wants the folder of a checkpoint");
  const auto json_path = model_dir + "/tokenizer.json", model_path = model_dir + "/tokenizer.model";
  const auto vocabulary_path = model_dir + "/vocab.json", merges_path = model_dir + "/merges.txt";
  const bool has_json = path_exists(json_path), has_model = path_exists(model_path);
  check(has_json || has_model || (path_exists(vocabulary_path) && path_exists(merges_path)), model_dir,
        ": neither tokenizer.json nor tokenizer.model nor vocab.json with merges.txt; copy them from the model's page");
  const auto extra = tokens_of_folder(model_dir);
  if (has_json) return build_from_json(read_file(json_path), json_path, extra);
  if (!has_model) return build_from_vocabulary(model_dir, extra);
  const auto text = read_file(model_path);
  return build_from_sentencepiece({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, model_path, extra);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& path) {
  return build_from_json(text, path, {});
}

std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(ByteSpan bytes, const std::string& path) {
  return build_from_sentencepiece(bytes, path, {});
}

std::string escape_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\')
      out += "\\\\";
    else
      out += c;
  }
  return out;
}

std::string unescape_line(const std::string& line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    const char next = line[i] == '\\' && i + 1 < line.size() ? line[i + 1] : '\0';
    if (next == 'n' || next == '\\') ++i;
    out += next == 'n' ? '\n' : line[i];
  }
  return out;
}

}  // namespace asr
