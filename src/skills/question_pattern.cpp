#include "skills/question_pattern.h"

#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "skills/word_lists.h"

namespace asr {
namespace {

bool has_ending(const std::string& word, const std::string& ending) {
  return word.size() > ending.size() && word.compare(word.size() - ending.size(), ending.size(), ending) == 0;
}

// Closed classes; the rest of the classes are read off word_tags.
const std::map<std::string, const char*>& word_classes() {
  static const std::map<std::string, const char*> classes = {
      {"<be>", "is are was were isn't aren't wasn't weren't am be"},
      {"<do>", "do does did don't doesn't didn't"},
      {"<have>", "have has had haven't hasn't hadn't"},
      {"<modal>", "can could will would should shall may might must can't couldn't won't wouldn't shouldn't"},
      {"<this>", "this that these those it they he she"},
      {"<color>",
       "red green blue yellow purple orange cyan brown black white gray grey pink tan beige gold golden silver maroon "
       "violet turquoise blonde blond colorful teal magenta navy brunette redhead"},
      {"<person>",
       "man woman men women person people boy girl boys girls child children kid kids baby babies lady ladies guy guys "
       "player players he she they anyone anybody someone everyone everybody adult adults toddler"},
      {"<prep>",
       "on in under underneath above below beneath behind beside between near over against inside atop onto across "
       "along around through at by off"},
      {"<where>",
       "kitchen bathroom bedroom restaurant park zoo beach city town farm forest jungle desert airport station hotel "
       "house home office store shop market school church stadium museum restroom garage garden yard hospital library "
       "street road field ocean sea lake river mountain mountains country countryside village harbor port room cafe "
       "bakery bar gym theater classroom kitchenette factory playground backyard downtown suburb suburbs wild "
       "wilderness savanna freeway highway alley barn cabin apartment studio lobby hallway basement"},
      {"<region>",
       "background foreground corner center centre middle top bottom left right upper lower distance front back side "
       "half"},
      {"<medium>", "image picture photo photograph pic scene shot frame video screen"},
      {"<holding>",
       "holding wearing riding carrying eating drinking pulling pushing touching chasing catching throwing using "
       "driving biting hitting kicking reading watching feeding petting hugging covering surrounding cutting cooking "
       "leading towing dragging lifting swinging flying hold wear ride carry eat wears holds carries rides worn held"},
      {"<placed>",
       "sitting standing laying lying leaning resting hanging sleeping perched parked stacked attached tied connected "
       "mounted placed located located tucked sit stand lay lie lean hang walking running"},
      {"<kind>",
       "kind kinds type types sort sorts breed breeds species variety varieties flavor flavors make model style "
       "styles genre pattern brand-name cuisine"},
      {"<property>",
       "shape shapes size sizes material age gender sex texture weather temperature mood emotion expression condition "
       "length height width depth pose posture nationality ethnicity race hairstyle fabric weight"},
      {"<degree>",
       "old tall long big large high deep wide heavy thick hot cold fresh ripe crowded clean dirty fast steep short "
       "small young warm bright dark sunny full"},
      {"<print>",
       "word words letter letters text number numbers digit digits initials inscription slogan message phrase logo "
       "writing sentence caption headline"},
      {"<named>",
       "street avenue road highway store shop restaurant company airline airlines brand team bank business hotel "
       "station website url magazine book newspaper bus train boat ship airport building stadium city town state "
       "player product drink beer wine soda channel event park museum school university"},
      {"<sport>",
       "sport sports game games activity activities action actions exercise trick stunt maneuver stroke dance"},
      {"<opinion>",
       "should would might likely probably possible possibly think suppose appropriate safe dangerous legal illegal "
       "healthy unhealthy advisable typical normally usually often purpose reason because if famous expensive season "
       "holiday occasion celebrity profession occupation job expert professional"}};
  return classes;
}

bool in_closed_class(const std::string& name, const std::string& word) {
  static const auto sets = [] {
    std::map<std::string, std::set<std::string>> out;
    for (const auto& [key, words] : word_classes()) {
      std::istringstream in(words);
      for (std::string item; in >> item;) out[key].insert(item);
    }
    return out;
  }();
  const auto found = sets.find(name);
  return found != sets.end() && found->second.count(word) > 0;
}

const std::map<std::string, std::function<bool(const std::string&)>>& tag_classes() {
  static const std::map<std::string, std::function<bool(const std::string&)>> classes = {
      {"<ing>", [](const auto& w) { return has_ending(w, "ing") && w.size() > 4 && (word_tags(w) & kVerb); }},
      {"<plural>", [](const auto& w) { return (word_tags(w) & kPlural) != 0 && !has_ending(w, "ss"); }},
      {"<num>",
       [](const auto& w) {
         return (word_tags(w) & kNumeral) && w != "many" && w != "much" && w != "number" && w != "amount" &&
                w != "last" && w != "first" && w != "second" && w != "few" && w != "several";
       }},
      {"<cmp>",
       [](const auto& w) {
         return ((word_tags(w) & kComparative) ||
                 (has_ending(w, "er") && (word_tags(w.substr(0, w.size() - 2)) & kAttribute)) ||
                 has_ending(w, "ier")) &&
                !has_ending(w, "est") && w != "most" && w != "least" && w != "best" && w != "worst";
       }},
      {"<est>",
       [](const auto& w) {
         return (has_ending(w, "est") && (word_tags(w) & kComparative)) || w == "most" || w == "least";
       }},
      {"<det>", [](const auto& w) { return (word_tags(w) & kDeterminer) != 0; }},
      {"<adj>",
       [](const auto& w) {
         const auto tags = word_tags(w);
         return (tags & kAttribute) || (has_ending(w, "y") && !(tags & (kNoun | kVerb | kStop)) && w.size() > 4);
       }},
      {"<ed>", [](const auto& w) { return has_ending(w, "ed") && w.size() > 4; }}};
  return classes;
}

bool is_class(const std::string& name) {
  return word_classes().count(name) > 0 || tag_classes().count(name) > 0;
}

bool accepts(const std::string& option, const std::string& word) {
  if (option[0] != '<') return option == word;
  const auto tagged = tag_classes().find(option);
  return tagged != tag_classes().end() ? tagged->second(word) : in_closed_class(option, word);
}

}  // namespace

QuestionPattern::QuestionPattern(const std::string& text) {
  std::istringstream in(text);
  for (std::string part; in >> part;) {
    if (part == "^" || part == "$") {
      (part == "^" ? start_ : end_) = true;
      continue;
    }
    Element element;
    element.gap = part == "*";
    std::istringstream options(part);
    for (std::string option; std::getline(options, option, '|');) {
      check(option[0] != '<' || is_class(option), "the pattern '", text, "' names an unknown class ", option);
      element.options.push_back(option);
    }
    elements_.push_back(std::move(element));
  }
}

bool QuestionPattern::match_from(size_t element, const std::vector<std::string>& words, size_t at) const {
  if (element == elements_.size()) return !end_ || at == words.size();
  const auto& e = elements_[element];
  if (e.gap) {
    for (size_t next = at; next <= words.size(); ++next)
      if (match_from(element + 1, words, next)) return true;
    return false;
  }
  if (at >= words.size()) return false;
  for (const auto& option : e.options)
    if (accepts(option, words[at])) return match_from(element + 1, words, at + 1);
  return false;
}

bool QuestionPattern::matches(const std::vector<std::string>& words) const {
  if (start_) return match_from(0, words, 0);
  for (size_t at = 0; at < words.size(); ++at)
    if (match_from(0, words, at)) return true;
  return false;
}

}  // namespace asr
