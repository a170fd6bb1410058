// Normalisers of tokenizer.json. Every character keeps the bytes it came from; what is inserted has an empty place.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "io/tokenizers/parts.h"

namespace asr {
namespace {

using nlohmann::json;

bool is_chinese(uint32_t c) {  // the blocks that BERT's own code lists
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

Characters clean(const Characters& text) {
  Characters out;
  for (auto c : text) {
    if (is_space(c.code)) c.code = ' ';
    if (c.code != 0 && c.code != kReplacement && class_of(c.code) != CharacterClass::Control) out.push_back(c);
  }
  return out;
}

Characters space_out_chinese(const Characters& text) {
  Characters out;
  for (const auto& c : text) {
    const bool alone = is_chinese(c.code);
    if (alone) out.push_back({' ', c.begin, c.begin});
    out.push_back(c);
    if (alone) out.push_back({' ', c.end, c.end});
  }
  return out;
}

Characters without_accents(Characters text) {
  text.erase(std::remove_if(text.begin(), text.end(),
                            [](const Character& c) { return class_of(c.code) == CharacterClass::Accent; }),
             text.end());
  return text;
}

Characters stripped(const Characters& text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end && is_space(text[begin].code)) ++begin;
  while (right && begin < end && is_space(text[end - 1].code)) --end;
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

Normalizer bert_normalizer(const json& value) {
  const bool cleans = member(value, "clean_text", true), chinese = member(value, "handle_chinese_chars", true);
  const bool lowers = member(value, "lowercase", true), strips = member(value, "strip_accents", lowers);
  return [=](Characters text, size_t) {
    if (cleans) text = clean(text);
    if (chinese) text = space_out_chinese(text);
    if (strips) text = without_accents(nfd(text));
    return lowers ? lower_case(text) : text;
  };
}

// Every run of spaces becomes `content`, which has the place of the run: the pattern \s+.
Characters replace_spaces(const Characters& text, const Characters& content, size_t most, const std::string& what) {
  Characters out;
  for (size_t i = 0; i < text.size();) {
    if (!is_space(text[i].code)) {
      out.push_back(text[i++]);
      continue;
    }
    const size_t begin = text[i].begin;
    while (i < text.size() && is_space(text[i].code)) ++i;
    for (const auto& c : content) out.push_back({c.code, begin, text[i - 1].end});
    check_growth(out.size(), most, what);
  }
  return out;
}

Normalizer replace_normalizer(const json& value, const std::string& what) {
  const auto& pattern = value.at("pattern");
  const auto to = decode_utf8(value.at("content").get<std::string>());
  if (pattern.is_object() && pattern.value("Regex", json()) == "\\s+")
    return [=](const Characters& text, size_t most) { return replace_spaces(text, to, most, what); };
  check(pattern.contains("String"), what,
        ": a Replace normalizer with another regular expression than \\s+ is not supported; plain strings are");
  const auto from = decode_utf8(pattern.at("String").get<std::string>());
  check(!from.empty(), what, ": a Replace normalizer has an empty pattern");
  check(from.size() <= kLongestPattern, what, ": a Replace normalizer has a pattern of ", from.size(),
        " characters; at most ", kLongestPattern, " are supported");
  return [=](const Characters& text, size_t most) { return replace(text, from, to, most, what); };
}

Normalizer normalizer_sequence(const json& value, const std::string& what) {
  std::vector<Normalizer> steps;
  for (const auto& step : value.at("normalizers")) steps.push_back(make_normalizer(step, what));
  return [steps, what](Characters text, size_t most) {
    for (const auto& step : steps) {
      text = step(std::move(text), most);
      check_growth(text.size(), most, what);
    }
    return text;
  };
}

}  // namespace

Characters prepend(Characters text, const std::string& prefix) {
  if (text.empty()) return text;
  auto inserted = decode_utf8(prefix);
  for (auto& c : inserted) c.begin = c.end = text.front().begin;
  text.insert(text.begin(), inserted.begin(), inserted.end());
  return text;
}

// The new characters share the place of the old ones; of equal numbers, each takes its own.
Characters replace(const Characters& text, const Characters& pattern, const Characters& content, size_t most,
                   const std::string& what) {
  Characters out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t k = 0;
    while (k < pattern.size() && i + k < text.size() && text[i + k].code == pattern[k].code) ++k;
    if (k < pattern.size()) {
      out.push_back(text[i++]);
      continue;
    }
    for (size_t j = 0; j < content.size(); ++j) {
      const bool one_to_one = content.size() == pattern.size();
      out.push_back({content[j].code, text[one_to_one ? i + j : i].begin, text[one_to_one ? i + j : i + k - 1].end});
    }
    i += k;
    check_growth(out.size(), most, what);
  }
  return out;
}

void check_growth(size_t size, size_t most, const std::string& what) {
  check(size <= most, what, ": its steps make more than ", most,
        " characters of a short text; is this the tokenizer of a model?");
}

void check_steps(const json& value, const char* list, const std::string& what) {
  size_t count = 0;
  std::vector<const json*> open = {&value};
  while (!open.empty()) {
    const json& part = *open.back();
    open.pop_back();
    check(++count <= kMostSteps, what, ": '", list, "' holds more than ", kMostSteps, " steps");
    const auto at = part.is_object() ? part.find(list) : part.end();
    if (!part.is_object() || at == part.end()) continue;
    check(at->size() <= kMostSteps, what, ": '", list, "' holds more than ", kMostSteps, " steps");
    for (const auto& step : *at) open.push_back(&step);
  }
}

std::string type_of(const json& value, const std::string& what) {
  check(value.is_object() && value.contains("type") && value.at("type").is_string(), what,
        ": a part without a type; is this a tokenizer.json of Hugging Face?");
  return value.at("type").get<std::string>();
}

Normalizer make_normalizer(const json& value, const std::string& what) {
  if (value.is_null()) return [](Characters text, size_t) { return text; };
  const auto type = type_of(value, what);
  if (type == "Sequence") return normalizer_sequence(value, what);
  if (type == "NFC") return [](const Characters& text, size_t) { return nfc(text); };
  if (type == "NFD") return [](const Characters& text, size_t) { return nfd(text); };
  if (type == "Lowercase") return [](const Characters& text, size_t) { return lower_case(text); };
  if (type == "StripAccents") return [](const Characters& text, size_t) { return without_accents(text); };
  if (type == "BertNormalizer") return bert_normalizer(value);
  if (type == "Replace") return replace_normalizer(value, what);
  if (type == "Prepend") {
    const auto prefix = value.at("prepend").get<std::string>();
    return [prefix, what](Characters text, size_t most) {
      text = prepend(std::move(text), prefix);
      check_growth(text.size(), most, what);
      return text;
    };
  }
  if (type == "Strip") {
    const bool left = member(value, "strip_left", true), right = member(value, "strip_right", true);
    return [=](const Characters& text, size_t) { return stripped(text, left, right); };
  }
  fail(what, ": normalizer '", printable(type), "' is not supported",
       did_you_mean(type, {"Sequence", "NFC", "NFD", "Lowercase", "StripAccents", "BertNormalizer", "Replace",
                           "Prepend", "Strip"}));
}

}  // namespace asr
