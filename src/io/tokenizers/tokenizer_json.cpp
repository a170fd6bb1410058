// Hugging Face's tokenizer.json. Padding, truncation and the post-processor's templates are not read: ids come out as
// the text has them.
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/tokenizers/pipeline.h"

namespace asr {
namespace {

using nlohmann::json;

const json& part_of(const json& value, const char* name) {
  static const json nothing;
  const auto at = value.find(name);
  return at == value.end() ? nothing : *at;
}

}  // namespace

json parse_tokenizer_json(const std::string& text, const std::string& path) {
  check(!text.empty(), path, ": the file is empty; copy it again");
  return parse_json(text, path);
}

AddedToken added_token_from_json(const json& value, int64_t id) {
  AddedToken out;
  out.content = value.at("content").get<std::string>();
  out.id = id;
  out.special = member(value, "special", false);
  out.single_word = member(value, "single_word", false);
  out.lstrip = member(value, "lstrip", false);
  out.rstrip = member(value, "rstrip", false);
  out.normalized = member(value, "normalized", !out.special);
  return out;
}

std::unique_ptr<PipelineTokenizer> build_from_json(const std::string& text, const std::string& path,
                                                   const std::vector<AddedToken>& extra) {
  const auto value = parse_tokenizer_json(text, path);
  check(value.is_object(), path, ": not a JSON object; is this a tokenizer.json of Hugging Face?");
  return build_from_parts(value, path, extra);
}

std::unique_ptr<PipelineTokenizer> build_from_parts(const json& value, const std::string& path,
                                                    const std::vector<AddedToken>& extra) {
  try {
    PipelineTokenizer::Parts parts;
    parts.origin = path;
    check_steps(part_of(value, "normalizer"), "normalizers", path);
    check_steps(part_of(value, "pre_tokenizer"), "pretokenizers", path);
    check_steps(part_of(value, "decoder"), "decoders", path);
    parts.model = make_token_model(part_of(value, "model"), path);
    parts.normalize = make_normalizer(part_of(value, "normalizer"), path);
    parts.split = make_pre_tokenizer(part_of(value, "pre_tokenizer"), path);
    parts.decoder = make_decoder(part_of(value, "decoder"), path);
    auto out = std::make_unique<PipelineTokenizer>(std::move(parts));
    for (const auto& token : part_of(value, "added_tokens"))
      out->add(added_token_from_json(token, token.at("id").get<int64_t>()), path);
    for (const auto& token : extra) out->add(token, path);
    return out;
  } catch (const json::exception& error) {
    fail(path, ": a part is not as expected: ", printable(error.what(), 160));
  }
}

}  // namespace asr
