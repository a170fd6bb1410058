#include "backbones/prompt.h"

#include "base/error.h"

namespace asr {
namespace {

// The answer's tokens as they follow the prompt. Usually the prompt's own tokens are a prefix of those of the whole
// text; where a merge reaches over the border, the answer is encoded alone, as generation would have to write it.
std::vector<int64_t> answer_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& answer,
                                   const std::vector<Token>& prompt_tokens) {
  const auto whole = tokenizer.encode(prompt + answer);
  bool prefix = whole.size() > prompt_tokens.size();
  for (size_t i = 0; prefix && i < prompt_tokens.size(); ++i) prefix = whole[i].id == prompt_tokens[i].id;
  std::vector<int64_t> out;
  if (prefix)
    for (size_t i = prompt_tokens.size(); i < whole.size(); ++i) out.push_back(whole[i].id);
  else
    for (const auto& token : tokenizer.encode(answer)) out.push_back(token.id);
  return out;
}

// Cuts ordinary tokens from the left, never image tokens, until `budget` ordinary ones are left before the answer.
void cut_left(PackedText& text, int64_t image_token, int64_t budget) {
  int64_t ordinary = 0;
  for (const int64_t id : text.ids) ordinary += id != image_token;
  int64_t surplus = ordinary - budget;
  PackedText out;
  for (size_t i = 0; i < text.ids.size(); ++i) {
    const bool before_answer = static_cast<int64_t>(i) < text.prompt;
    if (surplus > 0 && before_answer && text.ids[i] != image_token) {
      --surplus;
      continue;
    }
    out.ids.push_back(text.ids[i]), out.labels.push_back(text.labels[i]);
    out.question.push_back(text.question[i]), out.functional.push_back(text.functional[i]);
    out.prompt += before_answer;
  }
  text = std::move(out);
}

}  // namespace

PackedText pack_text(const Tokenizer& tokenizer, const PromptTemplate& prompt, const PackItem& item,
                     int64_t image_tokens, int64_t budget) {
  check(!item.question.empty(), item.id, ": the question is empty");
  const bool pictured = item.image != nullptr && !prompt.image.empty();
  const int64_t image_token = prompt.image.empty() ? -1 : tokenizer.id_of(prompt.image);
  auto before = prompt.before;
  const auto mark = prompt.image.empty() ? std::string::npos : before.find(prompt.image);
  if (!pictured && mark != std::string::npos) {
    // Without a picture its line goes too.
    size_t length = prompt.image.size();
    if (mark + length < before.size() && before[mark + length] == '\n') ++length;
    before.erase(mark, length);
  }
  const auto text = before + item.question + prompt.after;
  const auto tokens = tokenizer.encode(text);
  std::vector<Token> asked;
  for (auto token : tokens) {
    if (token.end <= before.size() || token.begin >= before.size() + item.question.size()) continue;
    token.begin = token.begin > before.size() ? token.begin - before.size() : 0;
    token.end = std::min(token.end - before.size(), item.question.size());
    asked.push_back(token);
  }
  check(!asked.empty(), item.id, ": the question has no token");
  const auto functional = item.functional ? item.functional(asked) : std::vector<bool>(asked.size(), true);

  PackedText out;
  const auto add = [&](int64_t id, bool question, bool marked) {
    out.ids.push_back(id), out.labels.push_back(-1);
    out.question.push_back(question), out.functional.push_back(marked);
  };
  const auto add_picture = [&] {
    if (!prompt.image_open.empty()) add(tokenizer.id_of(prompt.image_open), false, false);
    for (int64_t i = 0; i < image_tokens; ++i) add(image_token, false, false);
    if (!prompt.image_close.empty()) add(tokenizer.id_of(prompt.image_close), false, false);
  };
  if (pictured && prompt.image_first) add_picture();
  if (!prompt.beginning.empty())
    if (const auto id = tokenizer.find(prompt.beginning)) add(*id, false, false);
  size_t next = 0;
  for (const auto& token : tokens) {
    const bool inside = token.end > before.size() && token.begin < before.size() + item.question.size();
    if (token.id == image_token && pictured && !inside && !prompt.image_first)
      add_picture();
    else
      add(token.id, inside, inside && functional[next]);
    next += inside;
  }
  out.prompt = static_cast<int64_t>(out.ids.size());
  if (!item.answer.empty())
    for (const int64_t id :
         answer_tokens(tokenizer, text, prompt.answer_before + item.answer + prompt.answer_after, tokens)) {
      out.ids.push_back(id), out.labels.push_back(id);
      out.question.push_back(false), out.functional.push_back(false);
    }
  if (budget > 0) cut_left(out, image_token, budget);
  return out;
}

}  // namespace asr
