#include "train/pretrain.h"

#include <fmt/format.h>

#include <fstream>
#include <map>

#include "backbones/tiny.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/random.h"
#include "data/encoded_samples.h"
#include "nn/adamw.h"
#include "streams/world/world.h"
#include "tensor/device.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using nlohmann::json;

WordTokenizer world_tokenizer() {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 40000; ++i) {
    const auto s = world::pretraining_sample(i);
    texts.push_back(s.question.text);
    texts.push_back(s.question.answer);
  }
  return WordTokenizer::from_texts(texts);
}

// Batches of similar length: a caption would otherwise make every batch as long as itself.
class Batches {
 public:
  Batches(const EncodedSamples& pool, const PretrainOptions& options) : options_(options) {
    constexpr int64_t kShort = 24;
    for (int64_t i = 0; i < pool.size(); ++i) buckets_[pool.tokens(i) <= kShort ? 0 : 1].push_back(i);
  }
  std::vector<int64_t> at(int64_t step) const {
    Random random({options_.seed, 0xba7c4, static_cast<uint64_t>(step)});
    const double share =
        static_cast<double>(buckets_[0].size()) / static_cast<double>(buckets_[0].size() + buckets_[1].size());
    const auto& bucket = random.chance(share) || buckets_[1].empty() ? buckets_[0] : buckets_[1];
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < options_.batch; ++i) rows.push_back(random.pick(bucket));
    return rows;
  }

 private:
  PretrainOptions options_;
  std::vector<int64_t> buckets_[2];
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Exact-match accuracy and majority share of one question type on validation scenes.
json accuracy_of(const TinyBackbone& model, const world::Stream& stream, size_t task, world::Domain domain,
                 int64_t samples) {
  auto spec = stream;
  spec.tasks[task].domain = domain;
  auto set = encode_samples(
      samples,
      [&](int64_t i) {
        return to_stream_sample(world::sample(spec, task, world::Split::val, static_cast<uint64_t>(i)), "val",
                                static_cast<int>(model.image_size()));
      },
      model, nullptr);
  int64_t right = 0, most = 0;
  std::map<std::string, int64_t> counts;
  for (int64_t begin = 0; begin < samples; begin += 500) {
    const auto rows = range(begin, std::min(samples, begin + 500));
    const auto answers = model.generate(set.rows(rows).input, Pass{}, 60);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& truth = set.info(rows[i]).answer;
      right += lower(model.tokenizer().decode(answers[i])) == lower(truth);
      most = std::max(most, ++counts[truth]);
    }
  }
  const auto percent = [&](int64_t n) { return 100.0 * static_cast<double>(n) / static_cast<double>(samples); };
  return {{"accuracy", percent(right)}, {"majority", percent(most)}};
}

json check_accuracy(const TinyBackbone& model, const std::string& file, int64_t samples) {
  const std::vector<std::string> names = {"world-10", "world-cit"};
  size_t tasks = 0;
  for (const auto& name : names) tasks += world::stream(name).tasks.size();
  Progress progress("check accuracy", static_cast<int64_t>(2 * tasks), Progress::Ends::unseen);
  json out;
  for (const auto& name : names) {
    const auto& stream = world::stream(name);
    for (size_t t = 0; t < stream.tasks.size(); ++t)
      for (const auto domain : {world::Domain::plain, world::Domain::hard}) {
        out[name][stream.tasks[t].name][world::name_of(domain)] = accuracy_of(model, stream, t, domain, samples);
        progress.advance();
        stop_if_interrupted(cat("in a check of accuracy; ", file, " holds the model so far"));
      }
  }
  progress.finish();
  return out;
}

// All samples of the training, drawn block by block.
std::shared_ptr<SampleSet> draw_pool(const PretrainOptions& options, const TinyBackbone& model) {
  constexpr int64_t kBlock = 1 << 14;  // bytes go to the device block by block
  Progress drawing("draw samples", options.pool);
  std::vector<EncodedSamples> blocks;
  for (int64_t begin = 0; begin < options.pool; begin += kBlock) {
    const int64_t count = std::min(kBlock, options.pool - begin);
    const auto sample = [&](int64_t i) {
      return to_stream_sample(world::pretraining_sample(static_cast<uint64_t>(begin + i)), "pretraining",
                              static_cast<int>(model.image_size()));
    };
    blocks.push_back(encode_samples(count, sample, model, nullptr));
    drawing.advance(count);
    stop_if_interrupted("before training; nothing was written");
  }
  std::vector<const SampleSet*> parts;
  for (const auto& block : blocks) parts.push_back(&block);
  drawing.finish();
  return concatenate(parts);
}

}  // namespace

json pretrain(const PretrainOptions& options) {
  const HearSignals hear("saving, then stopping; once more ends it at once");
  const auto device = device_named(options.device);
  allow_fast_products(device);
  const auto config = tiny_config(options.backbone, options.size);
  auto model = options.init.empty() ? TinyBackbone::random(config, world_tokenizer(), options.seed)
                                    : TinyBackbone::load(options.init);
  check(options.init.empty() || model->name() == options.backbone + "-" + options.size, options.init, ": is a ",
        model->name(), ", not a ", options.backbone, "-", options.size);
  model->to(device);
  std::vector<torch::Tensor> weights;
  for (auto& [name, weight] : model->named_weights()) weights.push_back(weight.requires_grad_());
  std::ofstream log(options.log.empty() ? options.out + ".log.jsonl" : options.log);
  const auto write = [&](json line) {
    line["time"] = utc_time();
    log << line.dump() << std::endl;
  };

  const auto pool = draw_pool(options, *model);
  const Batches batches(dynamic_cast<const EncodedSamples&>(*pool), options);
  AdamWOptions adam;
  adam.weight_decay = options.weight_decay;
  AdamW optimizer(weights, adam);
  Progress progress("pretrain " + model->name(), options.steps);
  const auto start = std::chrono::steady_clock::now();
  double mean_loss = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    optimizer.zero_grad();
    const auto loss = model->forward(pool->rows(batches.at(step)).input, Pass{}, Want{}).loss;
    loss.backward();
    optimizer.clip(1.0);
    optimizer.step(cosine_rate(options.learning_rate, step, options.steps, options.warmup));
    if (step % 50 == 0 || step + 1 == options.steps) {
      mean_loss = loss.item<double>();
      check(std::isfinite(mean_loss), "the loss is not finite at step ", step, "; try a smaller --learning-rate");
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      write({{"current_steps", step},
             {"total_steps", options.steps},
             {"loss", mean_loss},
             {"lr", cosine_rate(options.learning_rate, step, options.steps, options.warmup)},
             {"elapsed_time", seconds}});
    }
    progress.advance(1, fmt::format("loss {:.3f}", mean_loss));
    if (const int number = interrupted(StopPlace::step)) {
      model->save(options.out);
      throw Stopped(cat("stopped after step ", step + 1, " of ", options.steps, "; ", options.out,
                        " holds the weights so far, and --init goes on from them with a new schedule"),
                    number);
    }
    if (options.check_every > 0 && (step + 1) % options.check_every == 0 && step + 1 < options.steps) {
      model->save(options.out);  // what an interrupted training leaves behind
      write({{"current_steps", step + 1}, {"accuracy", check_accuracy(*model, options.out, 100)}});
    }
  }
  progress.finish();
  model->save(options.out);
  auto saved = TinyBackbone::load(options.out);
  saved->to(device);
  const auto accuracy = check_accuracy(*saved, options.out, options.check_samples);
  write({{"current_steps", options.steps}, {"accuracy", accuracy}});
  return {{"backbone", model->name()}, {"out", options.out}, {"accuracy", accuracy}};
}

}  // namespace asr
