#include "skills/part_of_speech.h"

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "io/wordnet.h"

namespace asr {
namespace {

constexpr double kRareShare = 0.05;  // of a word's tagged uses: a class below it is not considered

class Dictionary {
 public:
  explicit Dictionary(const std::string& folder) : wordnet_(folder) {}

  PartsOfSpeech look_up(const std::string& word) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(word);
    if (found != known_.end()) return found->second;
    return known_[word] = read(word);
  }

 private:
  PartsOfSpeech read(const std::string& word) const {
    std::array<bool, 4> has{};
    std::array<double, 4> uses{};
    double total = 0;
    for (const auto word_class : kWordClasses) {
      const auto i = static_cast<size_t>(word_class);
      for (const auto& form : wordnet_.base_forms(word, word_class)) {
        has[i] = true;
        uses[i] += static_cast<double>(wordnet_.uses(form, word_class));
      }
      total += uses[i];
    }
    for (size_t i = 0; i < 4; ++i) has[i] = has[i] && (total == 0 || uses[i] >= kRareShare * total);
    return {has[0], has[1], has[2], has[3]};
  }

  WordNet wordnet_;
  std::mutex mutex_;
  std::unordered_map<std::string, PartsOfSpeech> known_;
};

Lexicon lexicon_of(LexiconChoice choice) {
  if (choice == LexiconChoice::lists) return {};
  if (choice == LexiconChoice::wordnet) return wordnet_lexicon();
  try {
    return wordnet_lexicon();
  } catch (const Error&) {  // not installed
    return {};
  }
}

// Threads may ask while another chooses.
struct LexiconInUse {
  std::mutex mutex;
  Lexicon lexicon = lexicon_of(LexiconChoice::automatic);
};
LexiconInUse& lexicon_in_use() {
  static LexiconInUse in_use;
  return in_use;
}

}  // namespace

Lexicon wordnet_lexicon(const std::string& folder) {
  const auto dictionary = std::make_shared<Dictionary>(folder);
  return [dictionary](const std::string& word) { return dictionary->look_up(word); };
}

void use_lexicon(LexiconChoice choice) {
  auto chosen = lexicon_of(choice);
  auto& in_use = lexicon_in_use();
  const std::lock_guard<std::mutex> lock(in_use.mutex);
  in_use.lexicon = std::move(chosen);
}

Lexicon question_lexicon() {
  auto& in_use = lexicon_in_use();
  const std::lock_guard<std::mutex> lock(in_use.mutex);
  return in_use.lexicon;
}

std::vector<std::string> lexicon_files() {
  if (!question_lexicon()) return {};
  return WordNet().files();
}

}  // namespace asr
