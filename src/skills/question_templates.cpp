// Templates of questions for every skill, with words to fill them. In a template, {thing}, {things}, {person}, {adj},
// {color}, {cmp}, {est}, {ing}, {rel}, {region}, {place}, {kind}, {hold}, {print} and {end} are drawn; {a} draws a
// thing with its article, {end} is often empty or an instruction on the form of the answer.
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "skills/labelled_questions.h"
#include "skills/taxonomy.h"

namespace asr {
namespace {

using Words = std::vector<std::string>;

const std::map<std::string, Words>& fillers() {
  static const std::map<std::string, Words> lists = {
      {"thing", {"dog",    "cat",    "car",   "bus",    "truck",  "tree", "chair",  "table",  "lamp",   "cup",
                 "bottle", "plate",  "horse", "cow",    "bird",   "boat", "plane",  "train",  "bike",   "house",
                 "window", "door",   "clock", "phone",  "laptop", "book", "bag",    "shoe",   "hat",    "ball",
                 "kite",   "bench",  "vase",  "flower", "pizza",  "cake", "banana", "bowl",   "knife",  "sofa",
                 "bed",    "mirror", "sign",  "circle", "square", "star", "cube",   "sphere", "giraffe"}},
      {"things",
       {"dogs",   "cats",   "cars",  "trucks",  "trees",  "chairs", "cups",    "bottles",   "plates",  "horses",
        "cows",   "birds",  "boats", "planes",  "bikes",  "houses", "windows", "doors",     "books",   "bags",
        "shoes",  "hats",   "balls", "kites",   "people", "men",    "women",   "children",  "players", "flowers",
        "slices", "apples", "signs", "circles", "cubes",  "lights", "candles", "umbrellas", "sheep",   "spoons"}},
      {"person",
       {"man", "woman", "boy", "girl", "child", "person", "lady", "player", "baby", "guy", "kid", "skier", "surfer"}},
      {"adj", {"open", "clean", "wet",    "full", "empty",  "happy", "old", "young", "new",   "dirty",
               "ripe", "tall",  "broken", "cold", "bright", "dark",  "sad", "tired", "heavy", "soft"}},
      {"color", {"red", "green", "blue", "yellow", "black", "white", "brown", "orange", "gray", "pink", "purple"}},
      {"cmp",
       {"bigger", "larger", "smaller", "taller", "shorter", "longer", "older", "younger", "darker", "brighter",
        "heavier", "wider", "cleaner", "faster", "thicker", "higher"}},
      {"est", {"biggest", "largest", "smallest", "tallest", "shortest", "oldest", "darkest", "longest", "youngest"}},
      {"ing",
       {"running", "sleeping", "eating", "jumping", "walking", "swimming", "dancing", "talking", "smiling", "playing",
        "working", "moving", "surfing", "skiing", "flying", "cooking", "reading"}},
      {"hold",
       {"holding", "wearing", "riding", "carrying", "pulling", "pushing", "touching", "eating", "chasing", "leaning on",
        "sitting on", "standing on", "looking at", "playing with", "pointing at"}},
      {"rel",
       {"to the left of", "to the right of", "above", "below", "behind", "in front of", "next to", "under", "near",
        "on top of", "beside", "on", "inside"}},
      {"region",
       {"top left", "top right", "bottom left", "bottom right", "center", "middle", "upper left", "lower right",
        "left side", "right side", "top", "bottom", "background", "foreground", "upper half", "bottom left corner"}},
      {"place",
       {"kitchen", "bathroom", "park", "beach", "zoo", "street", "restaurant", "farm", "city", "forest", "church",
        "airport", "station", "bedroom", "office"}},
      {"kind", {"kind of", "type of", "sort of", "breed of", "species of", "variety of", "style of", "model of"}},
      {"print",
       {"sign", "shirt", "book", "bus", "label", "screen", "bottle", "poster", "jersey", "box", "cover", "banner"}},
      {"end", {"", "", "", "", " in the picture", " in this image", " in the photo", " in the video"}},
      {"form",
       {"", "", "", "", " Answer the question using a single word or phrase.", " Answer yes or no.",
        " Please answer briefly.", " Answer with the option's letter from the given choices directly."}}};
  return lists;
}

const std::vector<std::pair<const char*, Words>>& templates() {
  static const std::vector<std::pair<const char*, Words>> lists = {
      {"count",
       {"how many {things} are there{end}?", "what is the number of {things}{end}?", "count the {color} {things}.",
        "how many {things} is the {person} {hold}?", "is there only one {thing}{end}?",
        "are there two {things}{end}?"}},
      {"color",
       {"what color is the {thing}{end}?", "what is the color of the {person}'s {thing}?", "is the {thing} {color}?",
        "is the {thing} {color} or {color}?", "which color are the {things}{end}?",
        "what colour {thing} is the {person} {hold}?"}},
      {"location",
       {"where is the {thing}{end}?", "where are the {things}?", "is this in a {place}?", "are they at the {place}?",
        "what place is this?", "is this indoors or outdoors?", "was this taken in a {place}?",
        "what is the location of the {thing}?", "is this a {place}?"}},
      {"compare-number",
       {"are there more {things} than {things}{end}?", "are there fewer {things} than {things}?",
        "are there as many {things} as {things}?", "is the number of {things} greater than the number of {things}?",
        "are there more {things} or {things}{end}?", "is there an equal number of {things} and {things}?",
        "which {thing} has more {things}?", "who has the most {things}?",
        "does the {person} have more {things} than the {person}?", "do the {things} outnumber the {things}?",
        "is there the same number of {things} and {things}{end}?", "are the {things} fewer than the {things}?",
        "compare the number of {things} and {things}."}},
      {"compare-attribute",
       {"is the {thing} {cmp} than the {thing}?", "which {thing} is {cmp}?",
        "which is {cmp}, the {thing} or the {thing}?", "are the {things} the same color?",
        "do the {thing} and the {thing} have the same shape?", "which {thing} is the {est}?",
        "who is {cmp}, the {person} or the {person}?", "are both {things} the same size?",
        "is the {thing} the same color as the {thing}?", "does the {thing} match the {thing}?",
        "are all the {things} alike?", "is one {thing} {cmp} than the other?", "are the {things} different colors?",
        "compare the {thing} and the {thing}: which one is {cmp}?"}},
      {"existence",
       {"is there {a}{end}?", "are there any {things}{end}?", "do you see {a}?", "can you see any {things}{end}?",
        "does the image contain {a}?", "does the {thing} have {a}?", "is {a} visible{end}?",
        "are any {things} present?", "is there a {color} {thing} {rel} the {thing}?"}},
      {"relation",
       {"what is the {person} {hold}?", "what is {rel} the {thing}?", "who is {hold} the {thing}?",
        "is the {person} {hold} {a}?", "what is the {thing} attached to?", "what is hanging from the {thing}?",
        "which thing is {rel} the {thing}?", "what is the relationship between the {person} and the {person}?",
        "who is {rel} the {person}?", "what is the {thing} on?"}},
      {"spatial",
       {"is the {thing} {rel} the {thing}?", "is the {color} {thing} {rel} the {thing}?",
        "which way is the {thing} facing?", "in which direction is the {thing} moving?",
        "how far is the {thing} from the {thing}?", "on which side of the {thing} is the {thing}?",
        "are the {things} {rel} the {thing}?", "is the {person} facing the camera?",
        "is the {thing} {rel} or {rel} the {thing}?", "is the {thing} closer to the {thing} or the {thing}?"}},
      {"read",
       {"what does the {print} say?", "what is written on the {print}?", "what number is on the {print}?",
        "read the text on the {print}.", "what is the name on the {print}?", "what time does the clock show?",
        "which word is printed on the {print}?", "what brand is the {thing}?", "what is the title of the {print}?",
        "what letters are on the {print}?", "what is the price on the {print}?"}},
      {"attribute",
       {"is the {thing} {adj}?", "is the {person} {adj}?", "what shape is the {thing}?", "what is the {thing} made of?",
        "how old is the {person}?", "what size is the {thing}?", "does the {person} look {adj}?",
        "is the {thing} {adj} or {adj}?", "how tall is the {thing}?", "what is the weather like?",
        "what material is the {thing}?", "are the {things} {adj}?"}},
      {"fine-grained",
       {"what {kind} {thing} is this?", "what {kind} {things} are {rel} the {thing}?",
        "what {kind} {thing} is the {person} {hold}?", "what breed is the {thing}?", "what pattern is on the {thing}?",
        "which model is the {thing}?", "what {kind} {thing} does the {person} have?"}},
      {"grounding",
       {"give the bounding box of the {color} {thing}.", "what is in the {region} of the image?",
        "which {person} is {hold} the {thing}?", "please provide the coordinates of the {thing} {rel} the {thing}.",
        "point to the {thing} {rel} the {thing}.", "which of the {things} is {adj}?",
        "locate the {adj} {thing} in the image.", "what object is in the {region}?",
        "which one of the {things} is {color}?", "which {thing} is {adj}?", "find the {person} who is {hold} {a}.",
        "where is the {thing}? give its box as [x1, y1, x2, y2].", "what can be seen in the {region} of the picture?",
        "segment the {color} {thing}.", "highlight the {person} {rel} the {thing}.", "draw a box around the {thing}."}},
      {"activity",
       {"what is the {person} doing{end}?", "is the {person} {ing}?", "are the {things} {ing}?",
        "what sport is the {person} playing?", "what did the {person} do after {ing}?", "what is happening{end}?",
        "what does the {person} do at the end?", "how did the {person} react?", "is anyone {ing}?",
        "what activity is shown?", "what were the {things} doing before that?", "what game are they playing?"}},
      {"object",
       {"what is this?", "what is the {color} thing?", "what animal is this?", "is this {a}?", "are these {things}?",
        "name the object{end}.", "who is the {person}?", "what are these?", "what fruit is shown?",
        "identify the animal{end}.", "is that {a} or {a}?", "what object is this?", "list the objects{end}.",
        "what food is this?", "what is the {adj} thing called?"}},
      {"other",
       {"why is the {person} {ing}?", "why are there so many {things}?", "describe the image.",
        "how does the {person} open the {thing}?", "what is the {thing} used for?",
        "do you think the {person} is rich?", "would you eat this?", "what will happen next?", "is this safe?",
        "what season is it?", "write a caption for the image.", "should the {person} stop?",
        "how did the {person} get there?", "could this be dangerous?", "what is unusual about the {thing}?"}}};
  return lists;
}

std::string with_article(const std::string& noun) {
  return (std::string("aeiou").find(noun[0]) == std::string::npos ? "a " : "an ") + noun;
}

std::string filled(const std::string& text, Random& random) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at), close = text.find('}', open);
    out += text.substr(at, open - at);
    if (open == std::string::npos) break;
    const auto name = text.substr(open + 1, close - open - 1);
    out += name == "a" ? with_article(random.pick(fillers().at("thing"))) : random.pick(fillers().at(name));
    at = close + 1;
  }
  return out;
}

}  // namespace

std::vector<LabelledQuestion> templated_questions(int64_t count, uint64_t seed) {
  check(count >= 0, "there cannot be ", count, " questions");
  std::vector<LabelledQuestion> out;
  for (int64_t i = 0; i < count; ++i) {
    Random random({seed, 0x7e3, static_cast<uint64_t>(i)});
    const auto& [skill, list] = templates()[static_cast<size_t>(i) % templates().size()];
    auto text = filled(random.pick(list), random) + random.pick(fillers().at("form"));
    if (random.chance(0.5) && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    out.push_back({std::move(text), skill_or_other(skill), {}});
  }
  return out;
}

}  // namespace asr
