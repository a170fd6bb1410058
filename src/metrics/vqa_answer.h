// How the VQA evaluators bring an answer into its compared form, and what an answer is worth among annotators. The
// steps follow the official evaluation, oddities included; docs/metrics.md lists them.
#pragma once

#include <string>
#include <vector>

namespace asr {

std::string strip_answer(const std::string& text);         // line breaks and tabs to spaces, ends trimmed
std::string without_punctuation(const std::string& text);  // step 1
std::string plain_words(const std::string& text);          // step 2: case, number words, articles, contractions
std::string normalized_answer(const std::string& text);    // all of the above

// Every annotator in turn is left out; the answer is worth min(1, matches among the others / 3), averaged. One
// annotator alone leaves nobody to compare with, so there the answer must simply match.
double annotator_agreement(const std::string& answer, const std::vector<std::string>& annotators);

}  // namespace asr
