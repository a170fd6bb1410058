#include "metrics/vqa_answer.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "metrics/words.h"

namespace asr {
namespace {

using Table = std::unordered_map<std::string, std::string>;

// Contractions in full. A word that lacks exactly one of the apostrophes is mapped to its full form.
const char* const kContractions[] = {
    "ain't",     "aren't",       "can't",      "could've",     "couldn't",      "couldn't've",    "didn't",
    "doesn't",   "don't",        "hadn't",     "hadn't've",    "hasn't",        "haven't",        "he'd",
    "he'd've",   "he's",         "how'd",      "how'll",       "how's",         "isn't",          "it'd",
    "it'd've",   "it'll",        "ma'am",      "might've",     "mightn't",      "mightn't've",    "must've",
    "mustn't",   "needn't",      "not've",     "o'clock",      "oughtn't",      "'ow's'at",       "shan't",
    "she'd've",  "should've",    "shouldn't",  "shouldn't've", "somebody'd've", "somebody'll",    "somebody's",
    "someone'd", "someone'd've", "someone'll", "someone's",    "something'd",   "something'd've", "something'll",
    "that's",    "there'd",      "there'd've", "there're",     "there's",       "they'd",         "they'd've",
    "they'll",   "they're",      "they've",    "'twas",        "wasn't",        "we'd've",        "we've",
    "weren't",   "what'll",      "what're",    "what's",       "what've",       "when's",         "where'd",
    "where's",   "where've",     "who'd",      "who'd've",     "who'll",        "who's",          "who've",
    "why'll",    "why're",       "why's",      "won't",        "would've",      "wouldn't",       "wouldn't've",
    "y'all",     "y'all'd've",   "y'all'll",   "you'd",        "you'd've",      "you'll",         "you're",
    "you've"};

Table make_contractions() {
  Table out;
  for (const std::string full : kContractions)
    for (size_t i = 0; i < full.size(); ++i)
      if (full[i] == '\'') out[full.substr(0, i) + full.substr(i + 1)] = full;
  out["somebody'd"] = "somebodyd";  // the official table has this one the wrong way round
  return out;
}

const Table& contractions() {
  static const Table table = make_contractions();
  return table;
}

const Table& number_words() {
  static const Table table = {{"none", "0"},  {"zero", "0"},  {"one", "1"},  {"two", "2"},
                              {"three", "3"}, {"four", "4"},  {"five", "5"}, {"six", "6"},
                              {"seven", "7"}, {"eight", "8"}, {"nine", "9"}, {"ten", "10"}};
  return table;
}

const std::string& mapped(const Table& table, const std::string& word) {
  const auto found = table.find(word);
  return found == table.end() ? word : found->second;
}

bool has_comma_between_digits(const std::string& text) {
  for (size_t i = 1; i + 1 < text.size(); ++i)
    if (text[i] == ',' && is_digit(text[i - 1]) && is_digit(text[i + 1])) return true;
  return false;
}

// Periods not followed by a digit, but only the first 32: the reference passes a flag of that value as the limit.
std::string without_periods(const std::string& text) {
  std::string out;
  int removed = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool before_digit = i + 1 < text.size() && is_digit(text[i + 1]);
    if (text[i] == '.' && !before_digit && removed < 32)
      ++removed;
    else
      out += text[i];
  }
  return out;
}

}  // namespace

std::string strip_answer(const std::string& text) {
  std::string out = text;
  std::replace(out.begin(), out.end(), '\n', ' ');
  std::replace(out.begin(), out.end(), '\t', ' ');
  return trim(out);
}

// A mark beside a space anywhere in the text (or a comma between digits, for every mark) is deleted, others become
// spaces. Neighbours are looked up in the text as given, not as changed so far.
std::string without_punctuation(const std::string& text) {
  std::string out = text;
  const bool thousands = has_comma_between_digits(text);
  for (const char mark : std::string(";/[]\"{}()=+\\_-><@`,?!")) {
    if (text.find(mark) == std::string::npos) continue;
    const bool beside_space = text.find(std::string{mark, ' '}) != std::string::npos ||
                              text.find(std::string{' ', mark}) != std::string::npos;
    if (beside_space || thousands)
      out.erase(std::remove(out.begin(), out.end(), mark), out.end());
    else
      std::replace(out.begin(), out.end(), mark, ' ');
  }
  return without_periods(out);
}

std::string plain_words(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& word : split_words(lower(text))) {
    const auto& number = mapped(number_words(), word);
    if (number != "a" && number != "an" && number != "the") out.push_back(mapped(contractions(), number));
  }
  return join(out, " ");
}

std::string normalized_answer(const std::string& text) {
  return plain_words(without_punctuation(strip_answer(text)));
}

double annotator_agreement(const std::string& answer, const std::vector<std::string>& annotators) {
  const auto n = static_cast<double>(annotators.size());
  const auto k = static_cast<double>(std::count(annotators.begin(), annotators.end(), answer));
  if (annotators.size() == 1 || k == 0) return k;
  return (k * std::min(1.0, (k - 1) / 3) + (n - k) * std::min(1.0, k / 3)) / n;
}

}  // namespace asr
