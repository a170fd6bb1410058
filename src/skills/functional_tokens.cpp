// Three passes: cut the question into words and clauses; set aside what is no question (instructions, answer options,
// formats in brackets, tags); decide each remaining word from its tags and its neighbours.
#include "skills/functional_tokens.h"

#include <algorithm>
#include <initializer_list>

#include "skills/word_lists.h"
#include "skills/words.h"

namespace asr {
namespace {

bool is_one_of(const std::string& word, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* item) { return word == item; });
}

bool is_sentence_end(const TextPiece& mark) {
  return is_one_of(mark.text, {".", "?", "!", ":", ";", "\xef\xbc\x9f", "\xe3\x80\x82"});
}

class Reader {
 public:
  Reader(const std::string& question, const Lexicon& lexicon) : text_(question), pieces_(split_text(question)) {
    for (size_t i = 0; i < pieces_.size(); ++i) add_piece(i, lexicon);
  }

  std::vector<Word> read() {
    mark_quotes();
    skip_brackets();
    skip_options();
    for (size_t begin = 0, end; begin < items_.size(); begin = end) {
      for (end = begin; end < items_.size() && items_[end].clause == items_[begin].clause;) ++end;
      read_clause(begin, end);
    }
    std::vector<Word> out;
    for (auto& item : items_) out.push_back(std::move(item.word));
    return out;
  }

 private:
  struct Item {
    Word word;
    std::string lower;
    uint32_t tags = 0;
    size_t piece = 0;
    int clause = 0;
    bool after_mark = false, possessive = false, decided = false;
  };

  void add_piece(size_t i, const Lexicon& lexicon) {
    const auto& piece = pieces_[i];
    const size_t before = i == 0 ? 0 : pieces_[i - 1].end;
    if (text_.substr(before, piece.begin - before).find('\n') != std::string::npos) ++clause_;
    if (!piece.word) {
      const bool spaced = piece.end == text_.size() || static_cast<unsigned char>(text_[piece.end]) <= ' ';
      const bool initial = piece.text == "." && i > 0 && pieces_[i - 1].word && pieces_[i - 1].text.size() == 1;
      if (is_sentence_end(piece) && spaced && !initial) ++clause_;
      return;
    }
    Item item;
    item.word.text = piece.text;
    item.word.begin = piece.begin;
    item.word.end = piece.end;
    item.lower = lower_case(piece.text);
    item.piece = i;
    item.clause = clause_;
    item.after_mark = i > 0 && !pieces_[i - 1].word;
    const size_t n = item.lower.size();
    item.possessive = n > 2 && item.lower.compare(n - 2, 2, "'s") == 0 && !(word_tags(item.lower) & kWh);
    item.tags = tags_of(item.possessive ? item.lower.substr(0, n - 2) : item.lower, lexicon);
    if (item.lower == "s" && !item.after_mark && !items_.empty()) {  // "the dog s tail", as some data sets write it
      items_.back().possessive = true;
      item.tags = kStop;
    }
    items_.push_back(std::move(item));
  }

  // A lexicon speaks about words that the lists lack, which they would judge by their endings: closed classes are
  // complete in the lists, and for the commonest words of questions they know better than a dictionary of all senses.
  static uint32_t tags_of(const std::string& word, const Lexicon& lexicon) {
    const uint32_t tags = word_tags(word);
    if (!lexicon || is_listed_word(word) || (tags & kNumeral)) return tags;
    const auto parts = lexicon(word);
    const uint32_t known = (parts.noun ? kNoun : 0u) | (parts.verb ? kVerb : 0u) | (parts.adjective ? kAttribute : 0u);
    if (!known) return parts.adverb ? static_cast<uint32_t>(kStop) : tags;
    return known | (parts.noun ? tags & kPlural : 0u) | (parts.adjective ? tags & kComparative : 0u);
  }

  void set(size_t i, bool functional, const char* reason) {
    items_[i].word.functional = functional;
    items_[i].word.reason = reason;
    items_[i].decided = true;
  }
  bool has(size_t i, uint32_t tags) const { return (items_[i].tags & tags) != 0; }

  void set_pieces(size_t first, size_t last, bool functional, const char* reason) {  // pieces in [first, last)
    const auto begin = std::lower_bound(items_.begin(), items_.end(), first,
                                        [](const Item& item, size_t piece) { return item.piece < piece; });
    for (size_t i = begin - items_.begin(); i < items_.size() && items_[i].piece < last; ++i)
      if (!items_[i].decided) set(i, functional, reason);
  }

  // The mark that closes what `open` opens, at most 40 pieces on; 0 if there is none.
  size_t closing(size_t open, const char* mark) const {
    for (size_t i = open + 1; i < std::min(pieces_.size(), open + 40); ++i)
      if (!pieces_[i].word && pieces_[i].text == mark) return i;
    return 0;
  }

  // Quoted words are print; so are words in capitals, unless the whole question is.
  void mark_quotes() {
    static constexpr const char* pairs[][2] = {
        {"\"", "\""}, {"'", "'"}, {"`", "`"}, {"\xe2\x80\x9c", "\xe2\x80\x9d"}, {"\xe2\x80\x98", "\xe2\x80\x99"}};
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].word) continue;
      for (const auto& pair : pairs) {
        const bool opens =
            pieces_[i].text == pair[0] && (i == 0 || pieces_[i - 1].end < pieces_[i].begin || pair[0][0] != '\'');
        const size_t end = opens ? closing(i, pair[1]) : 0;
        if (end == 0) continue;
        set_pieces(i, end, true, "print");
        i = end;
        break;
      }
    }
    const bool mixed = std::any_of(text_.begin(), text_.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    for (size_t i = 0; mixed && i < items_.size(); ++i) {
      const auto& t = items_[i].word.text;
      const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
      const bool all = std::all_of(t.begin(), t.end(), [&](char c) { return capital(c) || (c >= '0' && c <= '9'); });
      const bool label = items_[i].piece + 1 < pieces_.size() && pieces_[items_[i].piece + 1].text == ":";
      if (all && t.size() > 1 && std::count_if(t.begin(), t.end(), capital) > 1 && !items_[i].decided && !label)
        set(i, true, "print");
    }
  }

  void skip_brackets() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].word) continue;
      const char* close = pieces_[i].text == "["   ? "]"
                          : pieces_[i].text == "<" ? ">"
                          : pieces_[i].text == "{" ? "}"
                                                   : nullptr;
      const size_t end = close ? closing(i, close) : 0;
      if (end == 0) continue;
      set_pieces(i, end, false, "format");
      i = end;
    }
  }

  bool is_option(size_t i, char letter) const {
    const auto& item = items_[i];
    const size_t next = item.piece + 1;
    return item.word.text.size() == 1 && item.word.text[0] == letter && next < pieces_.size() &&
           is_one_of(pieces_[next].text, {".", ")", ":"});
  }

  // "A. red B. green ...": from the first letter to the end of the clause that holds the last.
  void skip_options() {
    size_t first = items_.size(), last = 0;
    char letter = 'A';
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!is_option(i, letter)) continue;
      if (letter == 'A') first = i;
      last = i;
      ++letter;
    }
    if (letter < 'C') return;
    for (size_t i = first; i < items_.size() && items_[i].clause <= items_[last].clause; ++i) set(i, false, "option");
  }

  // How many words of the clause are about the answer's form: all, or up to a question after a comma, or none.
  size_t instruction_length(size_t begin, size_t end) const {
    size_t at = begin;
    while (at < end && (items_[at].decided || is_one_of(items_[at].lower, {"please", "kindly", "and", "then", "now"})))
      ++at;
    if (at == end) return end - begin;
    const auto contains = [&](std::initializer_list<const char*> list) {
      return std::any_of(items_.begin() + at, items_.begin() + end,
                         [&](const Item& i) { return is_one_of(i.lower, list); });
    };
    const auto& first = items_[at].lower;
    const bool label = end - at <= 2 && is_one_of(first, {"user", "question", "context", "assistant", "system", "hint",
                                                          "note", "options", "choices", "short", "instruction"});
    const bool command = is_one_of(first, {"answer", "respond", "reply", "output", "return"});
    const bool about_answer = is_one_of(first, {"give", "provide", "write", "select", "choose", "pick", "keep", "your",
                                                "the", "use", "using", "end", "make"}) &&
                              contains({"answer", "answers", "response", "option", "options"});
    if (!label && !((command || about_answer) && !contains({"whether"}))) return 0;
    for (size_t i = at + 1; i < end; ++i)
      if (items_[i].after_mark && has(i, kWh | kAuxiliary)) return i - begin;
    return end - begin;
  }

  void read_clause(size_t begin, size_t end) {
    const size_t skipped = instruction_length(begin, end);
    for (size_t i = begin; i < begin + skipped; ++i) set(i, false, "instruction");
    begin_ = begin + skipped;
    end_ = end;
    if (begin_ >= end_) return;
    asks_existence_ = asks_existence();
    find_main_verb();
    skip_medium();
    const size_t subject = subject_before_predicate();
    for (size_t i = begin_; i < end_; ++i)
      if (!items_[i].decided) i == subject ? set(i, true, "head noun") : decide(i);
  }

  bool joined(size_t i) const { return i + 1 < end_ && !items_[i + 1].after_mark && !items_[i + 1].decided; }

  // "is there", "do you see", "does the image show": then attributes are asked about too.
  bool asks_existence() const {
    if (!has(begin_, kAuxiliary) || begin_ + 1 >= end_) return false;
    if (items_[begin_ + 1].lower == "there") return true;
    for (size_t i = begin_ + 1; i < std::min(end_, begin_ + 4); ++i)
      if (is_one_of(items_[i].lower, {"see", "show", "contain", "spot", "find"})) return true;
    return false;
  }

  // English asks with an auxiliary before the subject, so that up to the next clause no other verb is finite: a plural
  // is a noun ("elbow pads"), and the first word behind the subject that can be a verb is the main one, be it a noun as
  // well ("does the dog need a break", "is the skier skiing").
  void find_main_verb() {
    auxiliary_ = main_verb_ = scope_end_ = end_;
    for (size_t i = begin_; i < std::min(end_, begin_ + 5) && auxiliary_ == end_; ++i)
      if (has(i, kAuxiliary)) auxiliary_ = i;
    if (auxiliary_ == end_) return;
    for (size_t i = auxiliary_ + 1; i < end_ && scope_end_ == end_; ++i)
      if (items_[i].after_mark || (has(i, kWh) && i > auxiliary_ + 1) ||
          is_one_of(items_[i].lower, {"while", "after", "before", "because", "that", "as", "if", "until", "since"}))
        scope_end_ = i;
    const auto& word = items_[auxiliary_].lower;
    const bool participle = is_one_of(word, {"is", "are", "was", "were", "isn't", "aren't", "wasn't", "weren't"});
    bool subject = false;
    for (size_t i = auxiliary_ + 1; i < scope_end_; ++i) {
      const auto& item = items_[i];
      const size_t n = item.lower.size();
      const bool form = participle ? n > 4 && item.lower.compare(n - 3, 3, "ing") == 0 : !has(i, kPlural);
      if (subject && form && has(i, kVerb) && !has(i, kAuxiliary | kStop) && follows_subject(i)) {
        main_verb_ = i;
        return;
      }
      subject = subject || has(i, kPronoun | kNoun | kPlural) || item.tags == 0;
    }
  }

  bool follows_subject(size_t i) const {
    const auto& before = items_[i - 1];
    if (before.possessive || (before.tags & (kRelation | kNumeral | kAuxiliary | kWh))) return false;
    if (before.tags & kPronoun) return true;
    if (before.tags & kAttribute)
      return i >= 2 && (items_[i - 2].tags & kRelation);  // "the man in red", no "red cross"
    return !(before.tags & (kDeterminer | kStop)) && ((before.tags & (kNoun | kPlural)) || before.tags == 0);
  }

  // The picture as the place or the subject of everything: "in the picture", "does the image show".
  void skip_medium() {
    for (size_t i = begin_; i < end_; ++i) {
      if (!has(i, kImage) || items_[i].decided) continue;
      size_t at = i;
      while (at > begin_ && i - at < 2 && (has(at - 1, kDeterminer) || items_[at - 1].lower == "above")) --at;
      const bool place = at > begin_ && is_one_of(items_[at - 1].lower, {"in", "of", "from", "within", "inside", "on"});
      const bool whole =
          begin_ + 2 < at && is_one_of(items_[begin_].lower, {"what"}) && is_one_of(items_[at - 1].lower, {"of"});
      const bool subject =
          i + 1 < end_ && is_one_of(items_[i + 1].lower, {"show", "shows", "contain", "contains", "have", "depict"});
      if (place || subject || whole) set(i, false, "medium");
      if (place) set(at - 1, false, "medium");
    }
  }

  // "is the kitty cute": without another predicate the last of the content words is one, and the word before is the
  // subject's head.
  size_t subject_before_predicate() const {
    if (!is_one_of(items_[begin_].lower, {"is", "are", "was", "were", "isn't", "aren't"}) || begin_ + 3 >= end_)
      return end_;
    if (!has(begin_ + 1, kDeterminer)) return end_;
    for (size_t i = begin_ + 2; i < end_; ++i)
      if (!is_content(i) || (i > begin_ + 2 && items_[i].after_mark)) return end_;
    return end_ - 2;
  }

  // A word that may stand inside or at the end of a noun phrase.
  bool is_content(size_t i) const {
    const auto& item = items_[i];
    if (item.decided || i == main_verb_) return false;
    if (item.possessive && !has(i, kPronoun)) return true;
    if (has(i, kDeterminer | kPronoun | kStop | kWh | kAuxiliary | kNumeral)) return false;
    if (has(i, kRelation | kComparative)) return false;
    // "the dog runs": an ending that may be a verb's ends the noun phrase before it.
    if (has(i, kNoun) && has(i, kPlural) && ((i > auxiliary_ && i < scope_end_) || after_determiner(i))) return true;
    return !has(i, kVerb) || (has(i, kNoun | kAttribute) && !has(i, kPlural));
  }

  bool after_determiner(size_t i) const {  // where a verb form is a noun or a modifier
    if (i == begin_ || items_[i].after_mark) return false;
    const auto& before = items_[i - 1];
    return before.possessive || is_one_of(before.lower, {"what", "which", "whose", "of"}) ||
           ((before.tags & (kDeterminer | kAttribute | kNumeral)) && !(before.tags & (kPronoun | kVerb)));
  }

  void decide(size_t i) {
    const auto& item = items_[i];
    const bool first = i == begin_;
    if (has(i, kWh)) return set(i, true, "wh-word");
    if (has(i, kAuxiliary)) return decide_auxiliary(i, first);
    if (item.lower == "one" && i > begin_ && has(i - 1, kWh | kDeterminer)) return set(i, false, "pronoun");
    if (item.possessive) return set(i, false, "modifier");
    if (has(i, kDeterminer)) return set(i, false, "article");
    if (has(i, kReading) && !(first && has(i, kVerb))) return set(i, true, "reading word");
    if (has(i, kComparative)) return set(i, true, "comparison");
    if (has(i, kRelation)) return set(i, true, "relation");
    if (has(i, kNumeral)) return set(i, true, "numeral");
    if (has(i, kPronoun)) return set(i, false, "pronoun");
    if (has(i, kStop)) return set(i, false, "stop word");
    if (i == main_verb_) return set(i, true, "verb");
    if (has(i, kVerb) && (first || !after_determiner(i)) && (first || !reads_as_noun(i))) return set(i, true, "verb");
    decide_content(i);
  }

  // A fronted auxiliary asks, as a wh-word does; inside the clause only a main verb counts ("what does it do").
  void decide_auxiliary(size_t i, bool first) {
    const auto& word = items_[i].lower;
    if (first || (items_[i].after_mark && i + 1 < end_ && has(i + 1, kDeterminer | kPronoun)))
      return set(i, true, "question opener");
    const bool helped = std::any_of(items_.begin() + begin_, items_.begin() + i,
                                    [](const Item& item) { return (item.tags & kAuxiliary) || item.lower == "to"; });
    const bool have = is_one_of(word, {"have", "has", "had"});
    const bool participle =
        i + 1 < end_ && (is_one_of(items_[i + 1].lower, {"been", "not"}) || (has(i + 1, kVerb) && !has(i + 1, kNoun)));
    if ((have && !participle) || (helped && is_one_of(word, {"do"}))) return set(i, true, "verb");
    set(i, false, "auxiliary");
  }

  // Both noun and verb by the lists ("plays", "watch"): a noun unless a noun, a pronoun, an auxiliary or "to" stands
  // before it.
  bool reads_as_noun(size_t i) const {
    if (!has(i, kNoun | kAttribute)) return false;
    if (items_[i].after_mark) return true;
    return !(has(i - 1, kPronoun | kAuxiliary | kNoun) || items_[i - 1].tags == 0 || items_[i - 1].lower == "to");
  }

  void decide_content(size_t i) {
    const bool attribute = has(i, kAttribute),
               asked = i > begin_ && is_one_of(items_[i - 1].lower, {"what", "which", "whose"});
    const bool followed =
        joined(i) && is_content(i + 1) && !(has(i + 1, kAttribute) && !has(i + 1, kNoun) && !attribute);
    if (asked && (!attribute || !followed)) return set(i, true, "asked about");
    if (attribute && followed) return set(i, asks_existence_, asks_existence_ ? "asked about" : "modifier");
    if (attribute && !has(i, kNoun)) return set(i, true, "attribute");
    if (followed && !has(i, kPlural)) return set(i, false, "modifier");
    set(i, true, "head noun");
  }

  const std::string& text_;
  std::vector<TextPiece> pieces_;
  std::vector<Item> items_;
  int clause_ = 0;
  size_t begin_ = 0, end_ = 0;                            // of the clause being read
  size_t auxiliary_ = 0, main_verb_ = 0, scope_end_ = 0;  // in it; end_: none
  bool asks_existence_ = false;
};

}  // namespace

std::vector<Word> functional_words(const std::string& question, const Lexicon& lexicon) {
  return Reader(question, lexicon).read();
}

std::vector<bool> functional_tokens(const std::string& question,
                                    const std::vector<std::pair<size_t, size_t>>& token_offsets,
                                    const Lexicon& lexicon) {
  std::vector<Word> words;
  for (auto& word : functional_words(question, lexicon))
    if (word.functional) words.push_back(std::move(word));
  std::vector<bool> out;
  bool any = false;
  for (const auto& [begin, end] : token_offsets) {
    const auto next =
        std::upper_bound(words.begin(), words.end(), begin, [](size_t at, const Word& word) { return at < word.end; });
    out.push_back(begin < end && next != words.end() && next->begin < end);
    any = any || out.back();
  }
  for (size_t i = 0; !any && i < out.size(); ++i) out[i] = token_offsets[i].first < token_offsets[i].second;
  return out;
}

}  // namespace asr
