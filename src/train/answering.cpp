#include "train/answering.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "data/walk.h"
#include "nn/merged_weights.h"

namespace asr {
namespace {

using Rows = std::vector<int64_t>;

Rows rows_of(const Rows& order, Part part) {
  return {order.begin() + part.begin, order.begin() + part.end};
}

// Starts to read the pictures of blocks that come next.
void read_ahead(const SampleSet& set, const Rows& order, Part next, int64_t batch) {
  for (int64_t begin = next.begin; begin < next.end; begin += batch)
    set.prefetch(rows_of(order, {begin, std::min(begin + batch, next.end)}));
}

// The weights of the last pass that could be merged. Adapters do not change while a set is answered, so one copy serves
// all blocks with the same slots and weights.
class AnswerWeights {
 public:
  explicit AnswerWeights(const std::vector<AdapterSite>& sites) : sites_(sites) {}

  // The pass, with merged weights where it has sites that take them.
  Pass with(const Pass& pass) {
    auto out = pass;
    if (sites_.empty() || pass.slots == 0) return out;
    const auto key = key_of(pass);
    if (!key) return out;
    if (key != key_) {
      weights_.clear();  // before the next copy is made
      weights_ = merged_weights(sites_, pass);
      key_ = key;
    }
    out.merged = &weights_;
    return out;
  }

 private:
  using Key = std::pair<uint64_t, std::map<size_t, std::vector<float>>>;

  // Nothing where weights are given for single rows.
  static std::optional<Key> key_of(const Pass& pass) {
    Key out{pass.slots, {}};
    if (!pass.given) return out;
    for (const auto& [slot, weights] : *pass.given) {
      if (weights.dim() > 1 && weights.size(0) > 1) return std::nullopt;
      const auto host = weights.to(at::kCPU, at::kFloat).contiguous();
      out.second[slot] = {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
    }
    return out;
  }

  const std::vector<AdapterSite>& sites_;
  std::optional<Key> key_;
  MergedWeights weights_;
};

// Which slots answer each row, known before any is answered.
struct RowRoutes {
  uint64_t always = 0;               // slots that take part in all rows, by gates of their own
  torch::Tensor weights;             // [rows, slots] in the answering order, on the CPU; one number a slot
  std::vector<std::string> choices;  // of every row, in the same order
  std::vector<std::string> why;      // the same, as RowAnswers has it

  const float* row(int64_t i) const { return weights.data_ptr<float>() + i * weights.size(1); }
  bool alike(int64_t i, int64_t j) const { return std::equal(row(i), row(i) + weights.size(1), row(j)); }
};

constexpr int64_t kSlots = 62;  // bits of Pass::slots that are slots

std::string name_of(const RouteChoice& choice) {
  return choice.slot.empty() ? "base" : choice.slot;
}

std::string reason_of(const RouteChoice& choice) {
  if (choice.slots.empty()) return "";
  auto out = nlohmann::json::object();
  for (const auto& [slot, probability] : choice.slots) out[slot] = rounded_probability(probability);
  return out.dump();
}

// One number a row for every slot that was given some, or undefined where that does not say all of the pass.
torch::Tensor slot_weights_of(const RoutedPass& routed, int64_t rows) {
  if (routed.choices.empty() || routed.inserted.defined()) return {};
  auto out = at::zeros({rows, kSlots}, at::kFloat);
  for (const auto& [slot, weights] : routed.given) {
    const bool column = weights.dim() == 2 && weights.size(0) == rows && weights.size(1) == 1;
    if (!column || static_cast<int64_t>(slot) >= kSlots) return {};
    if (!(routed.how.slots >> slot & 1)) continue;
    out.select(1, static_cast<int64_t>(slot)).copy_(weights.select(1, 0));
  }
  return out;
}

uint64_t given_bits(const RoutedPass& routed) {
  uint64_t out = 0;
  for (const auto& [slot, weights] : routed.given) out |= uint64_t(1) << slot;
  return out;
}

// The choices of all rows; nothing where nobody chooses, or where more than a number a slot is to be known of a row.
std::optional<RowRoutes> routes_of(const Answerer& who, const SampleSet& set, const Rows& order, int64_t batch,
                                   const Team& team) {
  // A look at one row, the same in every process, tells whether rows are routed at all.
  const auto first = who.pass(set.rows({order[0]}));
  if (first.given.empty() || !slot_weights_of(first, 1).defined()) return std::nullopt;
  RowRoutes out;
  bool odd = false;
  std::optional<uint64_t> always;
  std::vector<torch::Tensor> blocks;
  each_block({cat("route ", set.name), set.size(), batch, true, who.workers}, team, [&](Part rows, Part next) {
    auto block = set.rows(rows_of(order, rows));
    read_ahead(set, order, next, batch);
    block.input.same_picture = same_pictures(block);  // a key looks at a picture once
    const auto routed = who.pass(block);
    const auto weights = slot_weights_of(routed, block.size());
    const auto others = routed.how.slots & ~given_bits(routed);
    if (!always) always = others;
    odd = odd || !weights.defined() || others != *always;
    blocks.push_back(weights.defined() ? weights : at::zeros({block.size(), kSlots}, at::kFloat));
    for (const auto& choice : routed.choices) {
      out.choices.push_back(name_of(choice));
      out.why.push_back(reason_of(choice));
    }
  });
  if (team.any(odd)) return std::nullopt;
  out.weights = team.gather(blocks.empty() ? at::empty({0}, at::kFloat) : at::cat(blocks)).contiguous();
  out.choices = team.gather_texts(out.choices);
  out.why = team.gather_texts(out.why);
  // A process without a block has seen none; all the others have seen the same.
  const auto seen = team.gather_texts(always ? std::vector{std::to_string(*always)} : std::vector<std::string>());
  for (const auto& text : seen)
    if (text != seen[0]) return std::nullopt;
  out.always = std::stoull(seen.at(0));
  return out;
}

// Rows with the same weights beside each other, otherwise in the order they had; places in that order.
Rows grouped(const RowRoutes& routes) {
  std::map<std::vector<float>, Rows> groups;
  std::vector<const Rows*> by_appearance;
  for (int64_t i = 0; i < routes.weights.size(0); ++i) {
    auto [place, fresh] = groups.try_emplace({routes.row(i), routes.row(i) + routes.weights.size(1)});
    if (fresh) by_appearance.push_back(&place->second);
    place->second.push_back(i);
  }
  Rows out;
  for (const auto* rows : by_appearance) out.insert(out.end(), rows->begin(), rows->end());
  return out;
}

// How the rows at these places are answered: with the slots they need alone, and with one number a slot where all of
// them agree.
RoutedPass routed_pass(const RowRoutes& routes, const Rows& places, at::Device device) {
  RoutedPass out;
  out.how.answering = true;
  out.how.slots = routes.always;
  bool alike = true;
  for (const int64_t place : places) alike = alike && routes.alike(place, places[0]);
  auto weights = routes.weights.index_select(0, torch::tensor(places, at::kLong));  // [B, slots]
  if (alike) weights = weights.narrow(0, 0, 1);
  for (int64_t slot = 0; slot < weights.size(1); ++slot) {
    const auto column = weights.narrow(1, slot, 1);
    if (column.eq(0).all().item<bool>()) continue;
    out.how.slots |= uint64_t(1) << slot;
    out.given[static_cast<size_t>(slot)] = column.to(device);
  }
  for (const int64_t place : places) out.choices.push_back({routes.choices[static_cast<size_t>(place)], 1, {}});
  return out;
}

// What was made in `order`, in the order of the rows.
std::vector<std::string> in_row_order(std::vector<std::string> made, const Rows& order) {
  if (made.size() != order.size()) return made;  // nobody chose a slot
  std::vector<std::string> out(made.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = std::move(made[i]);
  return out;
}

}  // namespace

double rounded_probability(double value) {
  return std::round(value * 1e4) / 1e4;
}

RowAnswers answer_rows(const Answerer& who, const SampleSet& set, int64_t batch, const Team& team) {
  auto order = set.answering_order();
  const auto routes = who.by_slot ? routes_of(who, set, order, batch, team) : std::nullopt;
  const auto places = routes ? grouped(*routes) : range(0, set.size());
  if (routes) {
    Rows moved;
    for (const int64_t place : places) moved.push_back(order[static_cast<size_t>(place)]);
    order = std::move(moved);
  }
  AnswerWeights weights(who.merged_sites);
  RowAnswers out;
  each_block({cat("answer ", set.name), set.size(), batch, true, who.workers}, team, [&](Part rows, Part next) {
    auto block = set.rows(rows_of(order, rows));
    read_ahead(set, order, next, batch);
    block.input.same_picture = same_pictures(block);
    const auto routed = routes ? routed_pass(*routes, rows_of(places, rows), who.model.device()) : who.pass(block);
    const auto pass = routed.pass();
    for (auto& text : who.objective.answers(who.model, routed.seen(block).input, weights.with(pass), set.answer_tokens))
      out.texts.push_back(std::move(text));
    for (size_t i = 0; i < routed.choices.size(); ++i) {
      const auto place = static_cast<size_t>(places[static_cast<size_t>(rows.begin) + i]);
      out.slots.push_back(name_of(routed.choices[i]));
      out.why.push_back(routes ? routes->why[place] : reason_of(routed.choices[i]));
    }
  });
  out.texts = in_row_order(team.gather_texts(out.texts), order);
  out.slots = in_row_order(team.gather_texts(out.slots), order);
  out.why = in_row_order(team.gather_texts(out.why), order);
  return out;
}

}  // namespace asr
