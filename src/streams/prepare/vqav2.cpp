// vqav2-10: VQA v2 in ten question types, official train and val. Variant vqacl: the tasks of VQACL, CL-MoE and their
// followers. Variant asr: the rules of the paper's released preparation. A part of val's images is set aside for
// tuning.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "streams/prepare/vqa_rows.h"

namespace asr {
namespace {

struct Rule {
  const char* name;
  std::vector<const char*> words;  // whole words or phrases; the first rule that fires takes the question
};

const std::vector<Rule>& asr_rules() {
  static const std::vector<Rule> rules = {
      {"count", {"how many", "number of"}},
      {"color", {"color", "colour"}},  // the only one that also fires inside a word
      {"locate", {"where", "location", "place", "sitting", "standing"}},
      {"comparison", {"more", "less", "same", "different", "compare", "taller", "smaller"}},
      {"attribute", {"shape", "size", "kind", "type", "attribute"}},
      {"activity", {"doing", "playing", "riding", "activity"}},
      {"existence", {"is there", "are there", "does", "do you see", "visible"}},
      {"read", {"read", "word", "text", "sign", "printed", "letter"}},
      {"object", {"what is", "what are", "who", "object", "animal"}},
      {"other", {}}};
  return rules;
}

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool holds(const std::string& text, const std::string& word, bool whole) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word_character(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !is_word_character(text[at + word.size()]);
    if (!whole || (begins && ends)) return true;
  }
  return false;
}

size_t asr_task_of(const VqaRow& row) {
  auto text = row.question_type + " " + row.question;
  for (auto& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const auto& rules = asr_rules();
  for (size_t i = 0; i + 1 < rules.size(); ++i)
    for (const char* word : rules[i].words)
      if (holds(text, word, i != 1)) return i;
  return rules.size() - 1;
}

// The images of val with the smallest keyed hashes.
std::unordered_set<std::string> tuning_images(Preparation& preparation) {
  const int64_t wanted = preparation.options().tune_images;
  std::unordered_set<std::string> out;
  if (wanted == 0) return out;
  std::set<int64_t> images;
  const auto path = preparation.need({"v2_OpenEnded_mscoco_val2014_questions.json"}, "questions of VQA v2 val");
  preparation.read(path, [&](const FileRecord& record, const RowPlace&) {
    int64_t image = 0;
    if (!record.in_map && record.value.is_object() &&
        parse_int(text_of(record.value.value("image_id", nlohmann::json())), image))
      images.insert(image);
  });
  std::vector<std::pair<uint64_t, int64_t>> order;
  for (const int64_t id : images)
    order.emplace_back(
        Random({static_cast<uint64_t>(preparation.options().seed), 0x70e, static_cast<uint64_t>(id)}).next(), id);
  std::sort(order.begin(), order.end());
  // Half of a small set at most, so that there is something left to report.
  const auto count = std::min<size_t>(static_cast<size_t>(wanted), order.size() / 2);
  if (count < static_cast<size_t>(wanted))
    preparation.note(cat("val has only ", order.size(), " images: ", count, " of them are for tuning"));
  for (size_t i = 0; i < count; ++i) {
    auto digits = std::to_string(order[i].second);
    out.insert("COCO_val2014_" + std::string(12 - std::min<size_t>(12, digits.size()), '0') + digits);
  }
  return out;
}

void read_split(Preparation& preparation, bool vqacl, bool train) {
  QuestionTaskMap map;
  if (vqacl) map.read(preparation);
  const auto tuning = train ? std::unordered_set<std::string>() : tuning_images(preparation);
  read_official_vqa(preparation, train ? "train" : "val", [&](VqaRow& row, const RowPlace& place) {
    const int task = vqacl ? map.task_of(row) : static_cast<int>(asr_task_of(row));
    if (task < 0)
      return preparation.bad(place, std::to_string(row.question_id),
                             cat("question_type '", printable(row.question_type), "' is none of the 65"));
    const auto split = train ? DataSplit::train : tuning.count(row.image_key) ? DataSplit::tune : DataSplit::val;
    preparation.add(static_cast<size_t>(task), split, sample_of(preparation, row, !train), place);
  });
}

}  // namespace

void prepare_vqav2_10(Preparation& preparation) {
  const bool vqacl = preparation.choose_variant({"vqacl", "asr"}) == "vqacl";
  for (size_t i = 0; i < 10; ++i)
    preparation.add_task({vqacl ? vqacl_tasks()[i] : asr_rules()[i].name, vqa_metric(preparation), 16, {}});
  preparation.published_total = {443757, 214354, -1};
  preparation.unit("train", [&] { read_split(preparation, vqacl, true); });
  preparation.unit("val", [&] { read_split(preparation, vqacl, false); });
}

}  // namespace asr
