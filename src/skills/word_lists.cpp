#include "skills/word_lists.h"

#include <sstream>
#include <unordered_map>

namespace asr {
namespace {

constexpr struct {
  uint32_t tag;
  const char* words;
} kLists[] = {
    {kDeterminer,
     "a an the this that these those his her its their my your our some any each every all another no either neither "
     "such"},
    {kPronoun,
     "i you he she it we they me him them us her there here someone somebody anyone anybody something anything "
     "everyone everybody everything nothing himself herself itself themselves one's else"},
    {kStop,
     "of to for from with by as and or but nor if because so that not n't please kindly very too also just only ever "
     "yet still again away about enough well maybe perhaps then now up off out down together likely once "
     "backwards forwards upwards downwards upside afterwards according etc vs per like else without whether yes no ok "
     "okay hi hello"},
    {kWh, "what which who whom whose where when why how what's who's where's how's"},
    {kAuxiliary,
     "is are was were am be been being do does did has have had can could will would shall should may might must isn't "
     "aren't wasn't weren't doesn't don't didn't hasn't haven't hadn't can't couldn't won't wouldn't shouldn't"},
    {kRelation,
     "on in at under underneath above below beneath behind beside besides between among near nearby next left right "
     "front top bottom inside outside over around across along through toward towards against into onto within "
     "opposite adjacent beyond upon past center centre middle corner edge side upper lower leftmost rightmost "
     "before after while during until since same different similar equal than both facing"},
    {kNumeral,
     "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
     "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million dozen first "
     "second third fourth fifth sixth last single double pair half many much several few number amount quantity"},
    {kReading,
     "text letter letters word words sentence sentences written print printed spell spells spelled spelling say says "
     "said read reads label labels labeled labelled title logo brand slogan inscription handwriting writing phrase "
     "numbers digits initials name"},
    {kAttribute,
     "red green blue yellow purple orange cyan brown black white gray grey pink tan beige gold golden silver maroon "
     "violet turquoise blonde blond colorful colored coloured dark light bright striped dotted solid checkered plaid "
     "small large big little tiny huge tall short long wide narrow thick thin high low old new young clean dirty wet "
     "dry full empty open closed ripe hot cold warm sunny cloudy rainy real fake happy sad angry cute healthy fresh "
     "wooden plastic metal leather round square flat sharp smooth rough soft hard heavy blurry bald visible safe ready "
     "horizontal vertical diagonal cluttered modern male female adult main whole cut sliced wild tame alive dead "
     "other own entire far close natural artificial electric "
     "professional military formal casual messy tidy busy crowded quiet good bad nice beautiful pretty fun funny "
     "dangerous expensive cheap fast slow strong weak rich poor tired hungry lonely friendly ugly curly early late "
     "alphabetical certain common typical right-handed left-handed"},
    {kComparative,
     "more less fewer most least better worse best worst bigger larger smaller taller shorter longer older younger "
     "newer higher lower closer farther further nearer wider brighter darker heavier thicker thinner faster slower "
     "biggest largest smallest tallest shortest longest oldest youngest highest lowest closest nearest brightest "
     "darkest heaviest fastest widest"},
    {kNoun,
     "ring ceiling building morning evening king wing string thing something clothing painting wedding railing "
     "parking pudding icing topping dressing spring sibling herring earring bed shed seed weed sled thread bread head "
     "bus dress glass grass gas cross bus lens canvas tennis class boss mess iris cactus walrus octopus pus virus "
     "people men women children feet teeth geese mice sheep person man woman child boy girl lady guy baby kid family "
     "fly butterfly belly jelly lily bully dog cat bird horse cow bear elephant giraffe zebra animal car truck bus "
     "train bike bicycle motorcycle plane airplane boat ship road street sidewalk sign light wall floor table chair "
     "couch sofa desk room kitchen bathroom house window door roof sky cloud sun tree grass flower plant field "
     "mountain water ocean sea lake river beach sand snow food pizza cake sandwich fruit banana apple orange carrot "
     "broccoli plate bowl cup bottle fork knife spoon hat shirt jacket coat pants shoe tie bag backpack umbrella hand "
     "head face eye hair arm leg foot ball bat racket racquet frisbee kite skateboard surfboard ski snowboard phone "
     "computer laptop keyboard mouse screen tv television clock watch book paper pen box toy bear vase oven stove "
     "refrigerator sink toilet mirror towel circle square triangle cross star diamond ring heart arrow bar object "
     "item shape size color colour texture pattern kind type sort style species breed material location position "
     "place part area region orientation direction activity action sport game weather season time day night year "
     "country city way cell column row box tally mark marks order class record outline view top background "
     "foreground reason purpose job event holiday meal breed language number score price"},
    {kVerb,
     "see look watch show appear seem hold carry wear ride drive sit stand walk run jump lie lay sleep eat drink play "
     "throw catch hit kick swing fly surf skate ski swim climb fall hang lean rest wait talk speak sing dance laugh "
     "smile cry wave point touch grab reach pull push lift drop put take give get bring make build cook cut slice bake "
     "wash clean brush open close turn move go come leave enter cross follow chase lead face pose use work wave type "
     "draw paint write count name list describe identify compare find locate tell explain report mention detect "
     "determine classify recognize summarize estimate choose select match contain include have own belong need want "
     "like love feel think know try start begin stop finish keep help protect serve sell buy pay live grow graze feed "
     "cover surround attach connect place park land travel perform practice celebrate compete race win lose bend "
     "stretch roll spin slide flip shake crawl kneel squat bounce balance hug kiss pet hold react respond interact "
     "happen occur participate engage check fix press remove add tie pack fill pour spread mix stir shine blow bite "
     "lick sniff bark approach attract control shift position cause indicate represent suggest live visit snow rain "
     "crash park melt burn break bear shoot aim dress shave comb text call listen hear smell taste stare gaze stick "
     "float sink sail row paddle wade dive splash wander step march gather meet greet shop order prepare eat require "
     "allow mean happen change set hide seek seen held worn sat stood ran lay slept ate drank threw caught swung flew "
     "swam fell hung spoke sang drew wrote took gave got brought made built went came left led kept sold bought grew "
     "rode drove woke ran swept slid shook spun bent lent sent spent heard paid laid fed blew bit shot broke tore felt "
     "thought knew began lost won met meant hid shown known taken given written "
     "driven ridden eaten drunk thrown flown drawn fallen broken worn torn hidden gotten done doing bigger spell run "
     "print say read give guess imagine wonder provide"},
    {kImage,
     "image images picture pictures photo photos photograph photographs video videos scene shot pic clip photo's"}};

const std::unordered_map<std::string, uint32_t>& table() {
  static const auto built = [] {
    std::unordered_map<std::string, uint32_t> out;
    for (const auto& list : kLists) {
      std::istringstream in(list.words);
      for (std::string word; in >> word;) out[word] |= list.tag;
    }
    return out;
  }();
  return built;
}

uint32_t listed(const std::string& word) {
  const auto found = table().find(word);
  return found == table().end() ? 0 : found->second;
}

bool ends(const std::string& word, const char* ending, size_t least) {
  const std::string end = ending;
  return word.size() >= least && word.compare(word.size() - end.size(), end.size(), end) == 0;
}

// The listed word behind an inflected one, with the tags that inflection leaves: "riding" from "ride".
bool base_has(const std::string& word, size_t ending, uint32_t tag) {
  const std::string stem = word.substr(0, word.size() - ending);
  if (stem.size() < 2) return false;
  if ((listed(stem) | listed(stem + "e")) & tag) return true;
  const size_t n = stem.size();
  if (n > 2 && stem[n - 1] == stem[n - 2] && (listed(stem.substr(0, n - 1)) & tag)) return true;  // running
  return stem[n - 1] == 'i' && (listed(stem.substr(0, n - 1) + "y") & tag);                       // carried
}

uint32_t by_ending(const std::string& word) {
  if (word[0] >= '0' && word[0] <= '9') return kNumeral;
  if (ends(word, "ly", 5)) return kStop;
  if (ends(word, "ing", 5)) return kVerb;
  if (ends(word, "ed", 5)) return kVerb;
  if (ends(word, "est", 6)) return kComparative;
  for (const char* ending : {"ous", "ful", "ish", "less", "able", "ible", "ive", "tic", "most"})
    if (ends(word, ending, 6)) return kAttribute;
  if (ends(word, "ies", 5) || (ends(word, "es", 5) && !ends(word, "ses", 3))) {
    const uint32_t verb =
        base_has(word, ends(word, "ies", 5) ? 2 : 1, kVerb) || base_has(word, 2, kVerb) ? kVerb : WordTag{};
    return kPlural | kNoun | verb;
  }
  if (ends(word, "s", 3) && !ends(word, "ss", 3) && !ends(word, "us", 3) && !ends(word, "is", 3))
    return kPlural | kNoun | (base_has(word, 1, kVerb) ? kVerb : WordTag{});
  return 0;
}

}  // namespace

bool is_listed_word(const std::string& word) {
  return listed(word) != 0;
}

uint32_t word_tags(const std::string& word) {
  if (word.empty()) return 0;
  const uint32_t found = listed(word);
  return found ? found : by_ending(word);
}

}  // namespace asr
