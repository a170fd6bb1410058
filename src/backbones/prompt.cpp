#include "backbones/prompt.h"

#include <algorithm>

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
  int64_t surplus = -budget;
  for (int64_t i = 0; i < text.prompt; ++i) surplus += text.ids[static_cast<size_t>(i)] != image_token;
  PackedText out;
  for (size_t i = 0; i < text.ids.size(); ++i) {
    const bool before_answer = static_cast<int64_t>(i) < text.prompt;
    if (surplus > 0 && before_answer && text.ids[i] != image_token) {
      --surplus;
      continue;
    }
    out.ids.push_back(text.ids[i]);
    out.labels.push_back(text.labels[i]);
    out.question.push_back(text.question[i]);
    out.functional.push_back(text.functional[i]);
    out.prompt += before_answer;
  }
  text = std::move(out);
}

}  // namespace

PackedText pack_text(const Tokenizer& tokenizer, const PromptTemplate& prompt, const PackItem& item,
                     const std::vector<int64_t>& image_tokens, int64_t budget) {
  check(!item.question.empty(), item.id, ": the question is empty");
  const int64_t image_token = image_tokens.empty() ? -1 : tokenizer.id_of(prompt.image);
  auto before = prompt.before;
  if (!prompt.image_first)
    for (size_t i = 0; i < image_tokens.size(); ++i) before += prompt.picture;
  const auto text = before + item.question + prompt.after;
  const auto tokens = tokenizer.encode(text);
  const auto inside = [&](const Token& token) {
    return token.end > before.size() && token.begin < before.size() + item.question.size();
  };
  std::vector<Token> asked;
  for (auto token : tokens) {
    if (!inside(token)) continue;
    token.begin = token.begin > before.size() ? token.begin - before.size() : 0;
    token.end = std::min(token.end - before.size(), item.question.size());
    asked.push_back(token);
  }
  check(!asked.empty(), item.id, ": the question has no token");
  const auto functional = item.functional ? item.functional(asked) : std::vector<bool>(asked.size(), true);

  PackedText out;
  const auto add = [&](int64_t id, bool question, bool marked) {
    out.ids.push_back(id);
    out.labels.push_back(-1);
    out.question.push_back(question);
    out.functional.push_back(marked);
  };
  size_t picture = 0;
  const auto add_picture = [&] {
    if (!prompt.image_open.empty()) add(tokenizer.id_of(prompt.image_open), false, false);
    for (int64_t i = 0; i < image_tokens[picture]; ++i) add(image_token, false, false);
    if (!prompt.image_close.empty()) add(tokenizer.id_of(prompt.image_close), false, false);
    ++picture;
  };
  if (prompt.image_first)
    while (picture < image_tokens.size()) add_picture();
  if (!prompt.beginning.empty())
    if (const auto id = tokenizer.find(prompt.beginning)) add(*id, false, false);
  size_t next = 0;
  for (const auto& token : tokens) {
    const bool in_question = inside(token);
    if (token.id == image_token && !in_question && picture < image_tokens.size())
      add_picture();
    else
      add(token.id, in_question, in_question && functional[next]);
    next += in_question;
  }
  check(picture == image_tokens.size(), item.id, ": the prompt has no place for its pictures");
  out.prompt = static_cast<int64_t>(out.ids.size());
  if (!item.answer.empty())
    for (const int64_t id :
         answer_tokens(tokenizer, text, prompt.answer_before + item.answer + prompt.answer_after, tokens)) {
      out.ids.push_back(id);
      out.labels.push_back(id);
      out.question.push_back(false);
      out.functional.push_back(false);
    }
  if (budget > 0) cut_left(out, image_token, budget);
  return out;
}

std::vector<int64_t> expand_images(const std::vector<int64_t>& ids, int64_t image_token,
                                   const std::vector<int64_t>& image_tokens) {
  int64_t found = 0, wanted = 0;
  for (const int64_t id : ids) found += id == image_token;
  for (const int64_t count : image_tokens) wanted += count;
  if (found == wanted) return ids;
  check(found == static_cast<int64_t>(image_tokens.size()), "the prompt has ", found, " image tokens for ",
        image_tokens.size(), " pictures of ", wanted, " visual tokens in all; give one a picture, or all of them");
  std::vector<int64_t> out;
  size_t picture = 0;
  for (const int64_t id : ids)
    if (id == image_token)
      out.insert(out.end(), static_cast<size_t>(image_tokens[picture++]), id);
    else
      out.push_back(id);
  return out;
}

}  // namespace asr
