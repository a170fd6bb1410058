#include "io/wordnet.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

constexpr const char* kNames[] = {"noun", "verb", "adj", "adv"};
constexpr size_t kLongestLemma = 100;  // no lemma is longer than 71 bytes; a bound for hostile input

struct Rule {
  const char *ending, *replacement;
};

const std::vector<Rule>& rules_of(WordClass word_class) {
  static const std::vector<Rule> rules[] = {
      {{"s", ""},
       {"ses", "s"},
       {"ves", "f"},
       {"xes", "x"},
       {"zes", "z"},
       {"ches", "ch"},
       {"shes", "sh"},
       {"men", "man"},
       {"ies", "y"}},
      {{"s", ""}, {"ies", "y"}, {"es", "e"}, {"es", ""}, {"ed", "e"}, {"ed", ""}, {"ing", "e"}, {"ing", ""}},
      {{"er", ""}, {"est", ""}, {"er", "e"}, {"est", "e"}},
      {}};
  return rules[static_cast<size_t>(word_class)];
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> out;
  for (size_t begin = line.find_first_not_of(' '); begin != std::string::npos;) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(' ', end);
  }
  return out;
}

// Takes the fields of a line one by one; a missing or malformed one is an error that names the place.
class Fields {
 public:
  Fields(const std::string& line, std::string place) : fields_(fields_of(line)), place_(std::move(place)) {}

  const std::string& text() {
    check(next_ < fields_.size(), place_, ": the line ends too early; is this WordNet 3.0?");
    return fields_[next_++];
  }
  size_t number(int base) {
    const std::string& field = text();
    char* end = nullptr;
    const unsigned long value = std::strtoul(field.c_str(), &end, base);
    check(end == field.c_str() + field.size() && value <= 0xffffffff, place_, ": '", printable(field),
          "' is not a number; is this WordNet 3.0?");
    return value;
  }
  void skip(size_t count) {
    for (size_t i = 0; i < count; ++i) text();
  }

 private:
  std::vector<std::string> fields_;
  std::string place_;
  size_t next_ = 0;
};

WordClass class_of(const std::string& letter, const std::string& place) {
  if (letter == "n") return WordClass::noun;
  if (letter == "v") return WordClass::verb;
  if (letter == "a" || letter == "s") return WordClass::adjective;
  check(letter == "r", place, ": unknown word class '", printable(letter), "'; is this WordNet 3.0?");
  return WordClass::adverb;
}

std::string folder_of(const std::string& given) {
  if (!given.empty()) return given;
  const char* variable = std::getenv("ASR_WORDNET");
  return variable && *variable ? variable : "/usr/share/wordnet";
}

std::vector<std::string> detached(const std::vector<std::string>& words, WordClass word_class) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const auto& word : words)
    for (const auto& [ending, replacement] : rules_of(word_class)) {
      const size_t length = std::strlen(ending);
      if (word.size() < length || word.compare(word.size() - length, length, ending) != 0) continue;
      auto form = word.substr(0, word.size() - length) + replacement;
      if (seen.insert(form).second) out.push_back(std::move(form));
    }
  return out;
}

}  // namespace

WordNet::WordNet(const std::string& folder) {
  const std::string where = folder_of(folder);
  const auto open = [&where](const std::string& name) {
    const std::string path = where + "/" + name;
    try {
      return File{path, MappedFile::open(path)};
    } catch (const Error& error) {
      fail("WordNet is missing: ", error.what(),
           "; install the package wordnet-base, or set ASR_WORDNET to the folder "
           "of its dictionary files");
    }
  };
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = kNames[i];
    index_[i] = open("index." + name);
    data_[i] = open("data." + name);
    exceptions_[i] = open(name + ".exc");
  }
  const std::string counts = where + "/cntlist.rev";
  if (access(counts.c_str(), R_OK) == 0) counts_ = open("cntlist.rev");
}

std::string WordNet::File::line_at(size_t offset) const {
  const auto [data, size] = bytes->bytes();
  const auto* begin = reinterpret_cast<const char*>(data) + offset;
  const void* end = std::memchr(begin, '\n', size - offset);
  return std::string(begin, end ? static_cast<const char*>(end) : begin + (size - offset));
}

size_t WordNet::File::first_not_below(const std::string& key) const {
  const auto [bytes_begin, size] = bytes->bytes();
  const auto* text = reinterpret_cast<const char*>(bytes_begin);
  size_t low = 0, high = size;  // the line starts in [low, high]
  while (low < high) {
    size_t start = low + (high - low) / 2;
    while (start > low && text[start - 1] != '\n') --start;
    const size_t length = std::min(key.size(), size - start);
    const int order = std::memcmp(text + start, key.data(), length);
    if (order > 0 || (order == 0 && length == key.size())) {
      high = start;
    } else {
      const void* end = std::memchr(text + start, '\n', size - start);
      low = end ? static_cast<size_t>(static_cast<const char*>(end) - text) + 1 : size;
    }
  }
  return low;
}

// Lines are in byte order of their first field, and the licence at the top starts with spaces, which come first.
std::string WordNet::File::line_of(const std::string& key) const {
  const std::string wanted = key + " ";
  const size_t at = first_not_below(wanted);
  if (at >= bytes->bytes().size) return "";
  const auto line = line_at(at);
  return line.compare(0, wanted.size(), wanted) == 0 ? line : "";
}

// A line is "dog%1:05:00:: 1 42": lemma, class (5 for adjectives of the second kind) and sense, its rank, its count.
int64_t WordNet::uses(const std::string& lemma, WordClass word_class) const {
  if (!counts_.bytes || lemma.empty() || lemma.size() > kLongestLemma) return 0;
  const auto digits =
      word_class == WordClass::adjective ? std::string("35") : std::string(1, "1234"[static_cast<size_t>(word_class)]);
  int64_t total = 0;
  for (const char digit : digits) {
    const auto key = lemma + "%" + digit + ":";
    for (size_t at = counts_.first_not_below(key); at < counts_.bytes->bytes().size;) {
      const auto line = counts_.line_at(at);
      if (line.compare(0, key.size(), key) != 0) break;
      Fields fields(line, counts_.path + ": '" + printable(lemma) + "'");
      fields.skip(2);
      total += static_cast<int64_t>(fields.number(10));
      at += line.size() + 1;
    }
  }
  return total;
}

bool WordNet::has(const std::string& lemma, WordClass word_class) const {
  return !lemma.empty() && lemma.size() <= kLongestLemma && lemma.find_first_of(" \n") == std::string::npos &&
         !index_[static_cast<size_t>(word_class)].line_of(lemma).empty();
}

std::vector<SynsetId> WordNet::senses(const std::string& lemma, WordClass word_class) const {
  std::vector<SynsetId> out;
  if (!has(lemma, word_class)) return out;
  const auto& file = index_[static_cast<size_t>(word_class)];
  Fields fields(file.line_of(lemma), file.path + ": '" + printable(lemma) + "'");
  fields.skip(2);  // lemma, class
  const size_t count = fields.number(10);
  fields.skip(fields.number(10) + 2);  // pointer symbols; number of senses again, number of tagged senses
  for (size_t i = 0; i < count; ++i) out.push_back({word_class, static_cast<uint32_t>(fields.number(10))});
  return out;
}

std::vector<std::string> WordNet::base_forms(const std::string& word, WordClass word_class) const {
  if (word.empty() || word.size() > kLongestLemma || word.find_first_of(" \n") != std::string::npos) return {};
  const auto known = [&](const std::vector<std::string>& forms) {
    std::vector<std::string> out;
    for (auto& form : forms)
      if (std::find(out.begin(), out.end(), form) == out.end() && has(form, word_class)) out.push_back(form);
    return out;
  };
  auto exceptions = fields_of(exceptions_[static_cast<size_t>(word_class)].line_of(word));
  if (!exceptions.empty()) return known(exceptions);  // its first field is the word itself
  auto forms = detached({word}, word_class);
  auto candidates = forms;
  candidates.insert(candidates.begin(), word);
  auto found = known(candidates);
  while (found.empty() && !forms.empty()) {  // rules apply again while nothing is found: every round shortens
    forms = detached(forms, word_class);
    found = known(forms);
  }
  return found;
}

std::vector<SynsetId> WordNet::all_senses(const std::string& word) const {
  std::vector<SynsetId> out;
  for (const WordClass word_class : kWordClasses)
    for (const auto& form : base_forms(word, word_class))
      for (const auto id : senses(form, word_class))
        if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
  return out;
}

Synset WordNet::synset(SynsetId id) const {
  const auto& file = data_[static_cast<size_t>(id.word_class)];
  const std::string place = cat(file.path, ": byte ", id.offset);
  check(id.offset < file.bytes->bytes().size, place, ": is past the end; is this WordNet 3.0?");
  Fields fields(file.line_at(id.offset), place);
  check(fields.number(10) == id.offset, place, ": no synset starts here; is this WordNet 3.0?");
  fields.skip(2);  // lexicographer file, class
  Synset out;
  const size_t words = fields.number(16);
  for (size_t i = 0; i < words; ++i) {
    out.words.push_back(fields.text());
    fields.skip(1);
  }
  const size_t pointers = fields.number(10);
  for (size_t i = 0; i < pointers; ++i) {
    const std::string symbol = fields.text();
    const auto offset = static_cast<uint32_t>(fields.number(10));
    const auto word_class = class_of(fields.text(), place);
    fields.skip(1);
    if (symbol == "@" || symbol == "@i") out.hypernyms.push_back({word_class, offset});
  }
  return out;
}

std::vector<std::string> WordNet::files() const {
  std::vector<std::string> out;
  for (const auto* group : {&index_, &data_, &exceptions_})
    for (const auto& file : *group) out.push_back(file.path);
  if (counts_.bytes) out.push_back(counts_.path);
  return out;
}

}  // namespace asr
