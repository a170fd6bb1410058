#include "methods/terms/kept_questions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"

namespace asr {

std::string picture_tag(const SampleInfo& info) {
  return info.category.empty() ? info.group : info.category;
}

void KeptQuestions::share_out(const SampleSet& data, int64_t most, int stage, uint64_t seed) {
  const auto share = static_cast<size_t>(std::max<int64_t>(1, most / stage));
  Random random({seed, 0x9d3a, static_cast<uint64_t>(stage)});
  std::vector<KeptQuestion> list;
  const auto add_some = [&](std::vector<KeptQuestion> from) {
    random.shuffle(from);
    from.resize(std::min(share, from.size()));
    list.insert(list.end(), from.begin(), from.end());
  };
  for (int old = 1; old < stage; ++old) {
    std::vector<KeptQuestion> of_stage;
    for (const auto& question : all_)
      if (question.stage == old) of_stage.push_back(question);
    add_some(std::move(of_stage));
  }
  std::vector<KeptQuestion> fresh;
  for (const auto& info : data.infos()) fresh.push_back({info.question, picture_tag(info), stage});
  add_some(std::move(fresh));
  take(std::move(list));
}

const KeptQuestion& KeptQuestions::draw(const std::string& tag, uint64_t key) const {
  Random random({key});
  const auto place = tag.empty() ? by_tag_.end() : by_tag_.find(tag);
  if (place == by_tag_.end()) return random.pick(all_);
  return all_[random.pick(place->second)];
}

void KeptQuestions::take(std::vector<KeptQuestion> list) {
  all_ = std::move(list);
  by_tag_.clear();
  for (size_t i = 0; i < all_.size(); ++i) by_tag_[all_[i].tag].push_back(i);
}

void KeptQuestions::state(StateVisitor& visitor) {
  auto list = nlohmann::json::array();
  for (const auto& question : all_) list.push_back({question.text, question.tag, question.stage});
  auto json = list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto before = json;
  visitor.text("questions", StateKind::question, json);
  if (json != before) read(json);
}

// A file may have been damaged.
void KeptQuestions::read(const std::string& json) {
  std::vector<KeptQuestion> list;
  const auto stored = parse_json(json, "the stored questions");
  check(stored.is_array(), "the stored questions are damaged: they are no list");
  for (const auto& entry : stored) {
    const bool good = entry.is_array() && entry.size() == 3 && entry[0].is_string() && entry[1].is_string() &&
                      entry[2].is_number_integer();
    check(good && !entry[0].get<std::string>().empty(), "the stored questions are damaged: number ", list.size() + 1,
          " is none");
    list.push_back({entry[0], entry[1], entry[2]});
  }
  take(std::move(list));
}

}  // namespace asr
