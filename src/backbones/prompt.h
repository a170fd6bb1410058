// A question and its answer as the tokens of one model family: chat template, image tokens, what is learnt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backbones/backbone.h"

namespace asr {

// `before`, `picture` once a picture, question, `after`; then `answer_before`, answer, `answer_after`.
struct PromptTemplate {
  std::string before, picture, after, answer_before, answer_after;
  std::string image;                    // the token in `picture` that stands for it; empty: no pictures
  std::string image_open, image_close;  // tokens put around a picture's own
  bool image_first = false;             // image tokens before everything else, the beginning token too
  std::string beginning;                // a token put first where the vocabulary has it: "<s>"
};

struct PackedText {
  std::vector<int64_t> ids, labels;  // labels -1 except at answer tokens
  std::vector<bool> question, functional;
  int64_t prompt = 0;  // tokens before the answer
};

// `image_tokens` stand for each picture; `budget` bounds the other tokens before the answer (0: none), which are cut
// from the left. The answer does not count: what is asked must not depend on what the right answer would be.
PackedText pack_text(const Tokenizer& tokenizer, const PromptTemplate& prompt, const PackItem& item,
                     const std::vector<int64_t>& image_tokens, int64_t budget);

// Token numbers with one image token a picture, or all of them already: the latter.
std::vector<int64_t> expand_images(const std::vector<int64_t>& ids, int64_t image_token,
                                   const std::vector<int64_t>& image_tokens);

}  // namespace asr
