// asr bench answers: short answers a second of a Hugging Face model with random adapters, each fast path beside the
// plain one, and the prompts a second that reading alone allows. bench/answers.py sets transformers beside it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>

#include "adapters/bank.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/random.h"
#include "cli/command.h"
#include "cli/version.h"
#include "data/packed_samples.h"
#include "methods/terms/sample_keys.h"
#include "tensor/device.h"
#include "tensor/runtime.h"
#include "train/answering.h"
#include "train/objectives.h"

namespace asr {
namespace {

using nlohmann::json;

struct AnswersArguments {
  std::string model, device = "cpu", picture_folder;
  bool deterministic = false;
  int64_t elsewhere = 2;
  int64_t batch = 16, pictures = 96, questions = 5, text_tokens = 30, new_tokens = 5, rank = 16, slots = 6, turns = 1,
          workers = 2;
};

// As many letters and blanks as make so many tokens, others for every row.
std::string random_question(const Tokenizer& tokenizer, int64_t tokens, uint64_t row) {
  Random random({0xa45e, row});
  std::string out;
  while (static_cast<int64_t>(tokenizer.encode(out).size()) < tokens) {
    for (int i = 0; i < 4; ++i) out += static_cast<char>('a' + random.below(26));
    out += ' ';
  }
  return out + "?";
}

Image8 drawn_picture(int64_t number) {
  constexpr int64_t kHeight = 480, kWidth = 640;  // the usual size of VQA v2's
  Image8 out{kHeight, kWidth, std::vector<uint8_t>(kHeight * kWidth * 3)};
  for (size_t i = 0; i < out.rgb.size(); ++i)
    out.rgb[i] = static_cast<uint8_t>(static_cast<int64_t>(i) * (number + 3) / 977);
  return out;
}

// `questions` rows about every picture, beside each other.
std::shared_ptr<PackedSamples> asked_pictures(const AnswersArguments& a, const Backbone& model) {
  std::vector<std::string> files;
  if (!a.picture_folder.empty())
    for (const auto& name : list_folder(a.picture_folder)) files.push_back(a.picture_folder + "/" + name);
  check(a.picture_folder.empty() || static_cast<int64_t>(files.size()) >= a.pictures, "--picture-folder ",
        a.picture_folder, ": holds ", files.size(), " files, and ", a.pictures, " pictures are asked for");
  const auto number = [a](int64_t row) { return row / a.questions; };
  PictureSource source;
  source.picture = [number, files](int64_t row) {
    return files.empty() ? drawn_picture(number(row)) : read_image(files[static_cast<size_t>(number(row))]);
  };
  source.file = [number, files](int64_t row) {
    return PictureFile{files.empty() ? cat("drawn ", number(row)) : files[static_cast<size_t>(number(row))]};
  };
  const auto text = [&](int64_t row) {
    StreamSample out;
    out.id = cat(row);
    out.question = random_question(model.tokenizer(), a.text_tokens, static_cast<uint64_t>(row));
    out.answer = "a";
    out.references = {out.answer};
    return out;
  };
  auto set = packed_samples(a.pictures * a.questions, text, source, model, nullptr);
  set->name = "questions";
  return set;
}

// A slot that all passes have, and some of which a key chooses one.
void add_slots(AdapterBank& bank, Backbone& model, const AnswersArguments& a) {
  SiteLayout each;
  each.rank = a.rank;
  bank.add(alike("trained", model.sites(), each), 1);
  each.answering.kind = GateKind::given;
  for (int64_t k = 0; k < a.slots; ++k)
    bank.add(alike(cat("slot-", k), model.sites(), each), static_cast<uint64_t>(k) + 2);
  at::NoGradGuard no_grad;
  for (auto& [name, tensor] : bank.tensors()) {
    if (name.find("lora_B") != std::string::npos) tensor.normal_(0, 0.01);
    tensor.requires_grad_(false);
  }
}

// How a batch is answered by one adapter, and by the slot of its stage as keys find it: made of every row by the base's
// first layer. Which slot a key names is drawn here, since nothing was learnt: that of the picture, but for a few rows,
// as keys are seldom wrong about a task.
struct Ways {
  Ways(const Backbone& backbone, const AdapterBank& slots, const AnswersArguments& a)
      : model(backbone),
        bank(slots),
        count(a.slots),
        questions(a.questions),
        elsewhere(a.elsewhere),
        keys(KeyChoice(), SpectralOptions()) {}

  int64_t chosen_slot(uint64_t row) const {
    Random own({0x5107, row}), picture({0x91c, row / static_cast<uint64_t>(questions)});
    const bool other = static_cast<int64_t>(own.below(100)) < elsewhere;
    return (other ? own : picture).below(static_cast<uint32_t>(count));
  }

  RoutedPass one() const {
    RoutedPass out;
    out.how.answering = true;
    out.how.slots = bank.bit("trained");
    return out;
  }

  RoutedPass routed(const SampleBatch& batch) const {
    RoutedPass out;
    out.how.answering = true;
    out.how.slots = 0;
    check(at::isfinite(keys.of(model, batch)).all().item<bool>(), "a key is not finite");
    auto weights = at::zeros({batch.size(), count}, at::kFloat);
    for (int64_t b = 0; b < batch.size(); ++b) {
      const auto slot = chosen_slot(std::stoull(batch.info[static_cast<size_t>(b)].id));
      weights[b][slot] = 1;
      out.choices.push_back({cat("slot-", slot), 1});
    }
    for (int64_t k = 0; k < count; ++k) {
      if (weights.select(1, k).eq(0).all().item<bool>()) continue;
      out.how.slots |= bank.bit(cat("slot-", k));
      out.given[bank.number(cat("slot-", k))] = weights.narrow(1, k, 1).to(model.device());
    }
    return out;
  }

  const Backbone& model;
  const AdapterBank& bank;
  int64_t count, questions, elsewhere;
  SampleKeys keys;
};

struct AnswerSide {
  std::string name, what;
  bool routed = false, by_slot = true, merged = true, shared = true;
  int64_t new_tokens = 0;  // 0: as asked for
  double answers_a_second = 0;
};

std::vector<AnswerSide> answer_sides() {
  std::vector<AnswerSide> out;
  out.push_back(
      {"prefill", "prompts read, one token each: the limit without shared pictures", false, true, true, false, 1});
  out.push_back(
      {"experts", "adapters beside the weights, every question reads its picture", false, true, false, false});
  out.push_back({"merged", "adapters in the weights", false, true, true, false});
  out.push_back({"shared", "and questions of a picture share it, as a run answers", false, true, true, true});
  out.push_back({"routed-weighed", "slots chosen by keys, rows weighed one by one", true, false, true, true});
  out.push_back({"routed", "the same, rows answered slot by slot, as a run answers", true, true, true, true});
  return out;
}

double answers_a_second(const AnswerSide& side, Backbone& model, SampleSet& set, const AnswersArguments& a,
                        const AdapterBank& bank) {
  BackboneOptions options;
  options.prefixes_shared = side.shared;
  model.configure(options);
  const Ways ways(model, bank, a);
  const auto objective = language_objective();
  Answerer who{model, *objective,
               [&](const SampleBatch& batch) { return side.routed ? ways.routed(batch) : ways.one(); }};
  if (side.merged) who.merged_sites = bank.sites();
  who.by_slot = side.by_slot;
  who.workers = a.workers;
  set.answer_tokens = side.new_tokens > 0 ? side.new_tokens : a.new_tokens;
  const auto warm = set.subset(range(0, std::min(set.size(), a.batch)));
  warm->name = set.name;
  const Team alone;
  answer_rows(who, *warm, a.batch, alone);
  double best = 0;
  for (int64_t turn = 0; turn < a.turns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    answer_rows(who, set, a.batch, alone);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(set.size()) / taken.count());
  }
  return best;
}

// What a key costs beside reading the prompt, for rows that are in memory: milliseconds a row, the best of some turns.
struct KeyCost {
  std::string keys;
  double milliseconds = 0, of_prefill = 0;
};

double milliseconds_a_row(const std::vector<SampleBatch>& blocks, int64_t turns,
                          const std::function<void(const SampleBatch&)>& work) {
  int64_t rows = 0;
  for (const auto& block : blocks) rows += block.size();
  double best = 1e300;
  work(blocks[0]);
  for (int64_t turn = 0; turn < turns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& block : blocks) work(block);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / static_cast<double>(rows));
  }
  return best;
}

// With `alone`, every row reads its own picture, for key and prompt alike; else rows of one picture share it.
std::vector<KeyCost> key_costs(const Backbone& model, const SampleSet& set, const AnswersArguments& a, bool alone) {
  std::vector<SampleBatch> blocks;
  for (int64_t begin = 0; begin < set.size() && blocks.size() < 4; begin += a.batch) {
    blocks.push_back(set.rows(range(begin, std::min(set.size(), begin + a.batch))));
    auto& input = blocks.back().input;
    input = to_device(input, model.device());
    input.same_picture = alone ? std::vector<int64_t>() : same_pictures(blocks.back());
  }
  const double prefill = milliseconds_a_row(blocks, 3, [&](const SampleBatch& block) {
    model.generate(block.input, Pass{0, nullptr}, 1);
  });
  std::vector<KeyCost> out = {{"prefill", prefill, 1}};
  for (const auto& parts : std::vector<std::vector<std::string>>{{"states"}, {"tokens"}, {"spectra"}}) {
    KeyChoice choice;
    choice.parts = parts;
    const SampleKeys keys(choice, SpectralOptions());
    const double taken = milliseconds_a_row(blocks, 3, [&](const SampleBatch& block) { keys.of(model, block); });
    out.push_back({join(parts, ", "), taken, taken / prefill});
  }
  return out;
}

double mean_prompt_tokens(const SampleSet& set, int64_t batch) {
  const auto input = set.rows(range(0, std::min(set.size(), batch))).input;
  return input.mask.logical_and(input.labels.lt(0)).sum(1).to(at::kDouble).mean().item<double>();
}

void bench_answers(const AnswersArguments& a, const Common& common) {
  at::NoGradGuard no_grad;
  set_deterministic(a.deterministic);
  const auto device = device_named(a.device);
  const auto model = load_backbone(a.model);
  check(model->image_size() == 0, "--model ", a.model, ": is a built-in model; give a Hugging Face folder");
  model->to(device);
  const auto set = asked_pictures(a, *model);
  AdapterBank bank(model->all_sites());
  add_slots(bank, *model, a);
  auto sides = answer_sides();
  std::vector<std::vector<std::string>> rows = {{"side", "answers a second"}};
  auto results = json::array();
  for (auto& side : sides) {
    side.answers_a_second = answers_a_second(side, *model, *set, a, bank);
    results.push_back({{"name", side.name}, {"what", side.what}, {"answers_a_second", side.answers_a_second}});
    rows.push_back({cat(side.name, ": ", side.what), number(side.answers_a_second, 2)});
  }
  const auto speed = [&](const std::string& name) {
    return std::find_if(sides.begin(), sides.end(), [&](const AnswerSide& s) { return s.name == name; })
        ->answers_a_second;
  };
  const double prompt = mean_prompt_tokens(*set, a.batch), routed = speed("routed") / speed("shared");
  auto keys = json::array();
  std::vector<std::vector<std::string>> key_rows = {{"key", "pictures", "ms a row", "of a prefill"}};
  for (const bool alone : {true, false})
    for (const auto& cost : key_costs(*model, *set, a, alone)) {
      const char* pictures = alone ? "a row its own" : "shared";
      keys.push_back({{"key", cost.keys},
                      {"pictures", pictures},
                      {"milliseconds", cost.milliseconds},
                      {"of_prefill", cost.of_prefill}});
      key_rows.push_back({cost.keys, pictures, number(cost.milliseconds, 3), number(cost.of_prefill, 3)});
    }
  if (common.json)
    return print_json({{"program", version_info()},
                       {"model", model->name()},
                       {"device", a.device},
                       {"batch", a.batch},
                       {"rows", set->size()},
                       {"questions_a_picture", a.questions},
                       {"prompt_tokens", prompt},
                       {"new_tokens", a.new_tokens},
                       {"rank", a.rank},
                       {"slots", a.slots},
                       {"elsewhere_percent", a.elsewhere},
                       {"deterministic", a.deterministic},
                       {"sides", results},
                       {"routed_over_unrouted", routed},
                       {"keys", keys}});
  std::cout << fmt::format(
                   "{} on {}: {} questions about {} pictures, {:.0f} tokens of prompt, {} new ones, batch {}, best of "
                   "{}\n",
                   model->name(), a.device, set->size(), a.pictures, prompt, a.new_tokens, a.batch, a.turns)
            << text_table(rows) << fmt::format("routed over unrouted: {:.2f}\n", routed) << text_table(key_rows);
}

}  // namespace

void add_bench_answers(CLI::App& bench, Common& common) {
  auto arguments = std::make_shared<AnswersArguments>();
  auto& a = *arguments;
  auto* command = bench.add_subcommand("answers", "short answers a second of a Hugging Face model, by every path");
  command->add_option("--model", a.model, "folder of a Hugging Face model")->required();
  command->add_option("--device", a.device, "cpu or cuda")->capture_default_str();
  command->add_option("--picture-folder", a.picture_folder, "image files to ask about; default: drawn in memory");
  const auto number_option = [&](const char* name, int64_t& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str()->check(CLI::Range(1, 1000000));
  };
  number_option("--batch", a.batch, "samples answered together");
  number_option("--pictures", a.pictures, "to ask about");
  number_option("--questions", a.questions, "about every picture; VQA v2 has 5.3");
  number_option("--text-tokens", a.text_tokens, "of a question, before the prompt's own");
  number_option("--new-tokens", a.new_tokens, "of an answer");
  number_option("--rank", a.rank, "of the adapters");
  number_option("--slots", a.slots, "of a routed run");
  number_option("--workers", a.workers, "blocks whose pictures are read ahead");
  command->add_option("--elsewhere", a.elsewhere, "percent of the rows that another slot answers than their picture's")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  command->add_flag("--deterministic", a.deterministic, "as full_determinism=yes");
  number_option("--turns", a.turns, "the fastest counts");
  command->callback([arguments, &common] { bench_answers(*arguments, common); });
}

}  // namespace asr
