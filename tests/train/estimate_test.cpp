// The estimates' numbers against ones computed by hand and against the models themselves. A run's memory is measured
// in tests/cli/doctor_test.cpp.
#include "train/estimate.h"

#include <iostream>

#include "base/text.h"
#include "tests/support/reference_models.h"
#include "tests/train/run_support.h"
#include "train/memory_check.h"

namespace asr {
namespace {

// Two layers of width 8, two heads of 4 with one key-value head, an MLP of 16, 100 words; no vision tower.
ModelShape small_shape() {
  ModelShape s;
  s.type = "llava";
  s.layers = 2;
  s.width = 8;
  s.heads = 2;
  s.kv_heads = 1;
  s.head = 4;
  s.mlp = 16;
  s.vocabulary = 100;
  s.weight_size = 2;
  s.weight_bytes = 2 * s.weights();
  return s;
}

// Four visual and six text tokens, two of them the answer; two tasks of 16 and 4 samples.
Workload small_work() {
  Workload w;
  w.tasks = {{"a", 16, 4, 0}, {"b", 16, 4, 0}};
  w.picture.visual = 4;
  w.text_tokens = 6;
  w.answer_tokens = 2;
  w.new_tokens = 3;
  w.question_tokens = 2;
  return w;
}

Machine slow_gpu() {
  return {"a GPU", "a test's", true, 1e6, 1e12, 1e9, 1};
}

RunConfig small_config(const std::string& method, std::vector<Assignment> more = {}) {
  std::vector<Assignment> list = {{"method", method, "test"},
                                  {"per_device_train_batch_size", "4", "test"},
                                  {"lora_rank", "2", "test"},
                                  {"lora_dropout", "0", "test"},
                                  {"attention.layers", "1", "test"}};
  list.insert(list.end(), more.begin(), more.end());
  return resolve_run(list);
}

TEST(ModelShape, OfPublishedModels) {
  const auto llava = published_model("models/llava-1.5-7b-hf/");
  EXPECT_EQ(llava.shape.decoder_weights(), 32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008));
  EXPECT_EQ(llava.shape.vision_weights(), 23 * (4.0 * 1024 * 1024 + 2.0 * 1024 * 4096));  // one layer does not run
  EXPECT_EQ(llava.shape.weights(), 7049052160.0);
  EXPECT_EQ(llava.shape.adapter_weights(16), 16 * (32 * 4 * 4096.0 + 1024 + 3 * 4096));
  // Seven linears a layer read 35,584 numbers and give 42,496.
  EXPECT_EQ(llava.shape.all_linear_weights(16) - llava.shape.projector_adapter(16), 16 * 32 * (35584.0 + 42496));
  EXPECT_EQ(llava.shape.projector_weights(), 1024.0 * 4096 + 4096 * 4096);
  const auto tokens = [](const std::string& name, int64_t height, int64_t width) {
    const auto model = published_model(name);
    const auto t = picture_tokens(model.shape, model.processor.get(), height, width);
    return std::make_pair(t.visual, t.positions);
  };
  EXPECT_EQ(tokens("llava-1.5-7b-hf", 384, 512), std::make_pair(576.0, 577.0));
  EXPECT_EQ(tokens("instructblip-vicuna-7b", 384, 512), std::make_pair(32.0, 257.0));
  EXPECT_EQ(tokens("Qwen2.5-VL-7B-Instruct", 384, 512), std::make_pair(14.0 * 18, 28.0 * 36));
  EXPECT_EQ(tokens("InternVL3-8B-hf", 448, 448), std::make_pair(256.0, 1025.0));            // one tile
  EXPECT_EQ(tokens("InternVL3-8B-hf", 384, 512), std::make_pair(13 * 256.0, 13 * 1025.0));  // 3x4 and a thumbnail
  EXPECT_THROW(published_model("llava-1.5-7b"), Error);
}

TEST(ModelShape, AgreesWithTheModelsThemselves) {
  for (const auto& name : reference_models()) {
    if (name.rfind("golden:", 0) == 0) continue;
    const auto reference = open_reference(name);
    const auto shape = read_model_shape(reference.folder);
    const auto model = load_backbone(reference.folder);
    double adapters = 0, linear = 0;
    for (const auto& site : model->sites())
      adapters += static_cast<double>(site.linear->weight.size(0) + site.linear->weight.size(1));
    for (const auto& site : model->adaptable())
      if (site.name.find("layers.") != std::string::npos && site.name.find("encoder") == std::string::npos)
        linear += static_cast<double>(site.linear->weight.numel());
    EXPECT_EQ(shape.adapter_weights(3), 3 * adapters) << name;
    EXPECT_EQ(shape.decoder_weights(), linear) << name;
    EXPECT_EQ(shape.weight_size, name == "qwen2" ? 2 : 4) << name;
    EXPECT_LE(static_cast<double>(shape.weight_size) * shape.weights(), shape.weight_bytes)
        << name;  // what the formula leaves out is small in real models
  }
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    TemporaryFolder folder;
    write_small_model(folder / "model", kind);
    const auto shape = read_model_shape(folder / "model");
    const auto model = load_backbone(folder / "model");
    double adapters = 0;
    for (const auto& site : model->sites())
      adapters += static_cast<double>(site.linear->weight.size(0) + site.linear->weight.size(1));
    EXPECT_EQ(shape.adapter_weights(1), adapters) << kind;
    EXPECT_EQ(shape.vocabulary, model->tokenizer().size());
  }
}

TEST(Estimate, WorkOfASampleByHand) {
  const auto shape = small_shape();
  EXPECT_EQ(shape.decoder_weights(), 1152);  // 2 (2 8 8 + 2 8 4 + 3 8 16)
  const auto once = sample_work(shape, small_work(), false), again = sample_work(shape, small_work(), true);
  EXPECT_EQ(once.forward, 23040 + 6400);  // 2 1152 10, and 4 10 10 8 2 of attention
  EXPECT_EQ(once.train, 2 * 23040 + 3.5 * 6400 + 3 * 3200);
  EXPECT_EQ(again.train, once.train + 23040 + 6400);
  EXPECT_EQ(once.prefix, 2 * 1152 * 4 + 4 * 4 * 4 * 8 * 2);  // of four visual tokens
  EXPECT_EQ(once.token, 2 * 1152 + 4 * 10 * 8 * 2 + 2 * 8 * 100);
}

TEST(Estimate, AnswersOfARun) {
  Workload w;
  w.tasks = {{"a", 1, 10, 0}, {"b", 1, 10, 0}, {"c", 1, 10, 0}};
  EXPECT_EQ(w.answers(), 10 * 3 * 6 / 2);  // M (M + 3) / 2 of V
  w.tasks[1].novel = 5;
  EXPECT_EQ(w.answers(), 90 + 2 * 5);
  EXPECT_EQ(w.questions(), 1);
  w.tasks[1].questions = 2;
  EXPECT_EQ(w.questions(), 30 / 25.0);
}

TEST(Estimate, TimeByHand) {
  const auto time = [](const std::string& method, std::vector<Assignment> more = {}, int64_t processes = 1) {
    auto machine = slow_gpu();
    machine.processes = processes;
    return estimate_run(small_config(method, std::move(more)), small_shape(), small_work(), machine).times[0];
  };
  const auto plain = time("vanilla");
  EXPECT_EQ(plain.steps, 8);
  EXPECT_DOUBLE_EQ(plain.training, 32 * 78080 / 1e6);
  EXPECT_DOUBLE_EQ(plain.memory_pass, 32 * 29440 / 1e6);
  EXPECT_EQ(plain.reference, 0);
  // Four answers of each task before training, and of one, then both tasks after each stage; three new tokens each.
  EXPECT_DOUBLE_EQ(plain.zero_shot, 8 * (29440 + 3 * 4544) / 1e6);
  EXPECT_DOUBLE_EQ(plain.evaluation, 12 * (29440 + 3 * 4544) / 1e6);
  EXPECT_DOUBLE_EQ(time("vanilla", {}, 2).training, plain.training / (2 * kParallelShare));
  EXPECT_DOUBLE_EQ(time("vanilla", {{"memory.samples", "4", "test"}}).memory_pass, 8 * 29440 / 1e6);
  EXPECT_EQ(time("vanilla", {{"task_epochs", "[b=3]", "test"}}).steps, 4 + 12);
  EXPECT_EQ(time("vanilla", {{"task_epochs", "[b=3]", "test"}, {"max_stage_steps", "6", "test"}}).steps, 4 + 6);
  EXPECT_DOUBLE_EQ(time("asr").reference, 32 * 29440 / 1e6);
  EXPECT_EQ(time("asr", {{"asr.gamma", "0", "test"}}).reference, 0);
  // Joint: 16 samples of one task once, of the other three times, and no stage whose limit could count.
  EXPECT_EQ(time("joint", {{"task_epochs", "[b=3]", "test"}, {"max_stage_steps", "6", "test"}}).steps, 16);
  // Under augmentation the reference is computed in every step; a whole step's embeddings cost as much again.
  const auto augmented = time("asr", {{"recipe", "asr-paper", "test"}});
  EXPECT_EQ(augmented.reference, 0);
  EXPECT_DOUBLE_EQ(augmented.training, 32 * (78080 + 29440) / 1e6);
  EXPECT_DOUBLE_EQ(
      time("asr", {{"geometry.batch", "global", "test"}, {"gradient_accumulation_steps", "2", "test"}}).training,
      32 * (78080 + 29440) / 1e6);
  EXPECT_DOUBLE_EQ(time("lwf").training, 32 * (78080 + 29440) / 1e6);
  EXPECT_DOUBLE_EQ(time("ewc").method_pass, 32 * 78080 / 1e6);
  EXPECT_DOUBLE_EQ(time("ewc", {{"ewc.samples", "4", "test"}}).method_pass, 8 * 78080 / 1e6);
  EXPECT_EQ(plain.method_pass, 0);
  EXPECT_EQ(time("er").steps, 4 + 6);  // three of four rows are new in the second stage
  EXPECT_EQ(time("er", {{"er.share", "0.5", "test"}}).steps, 4 + 8);
  // Where nothing is measured for the analysis, a method has measured what it needs.
  const Assignment alone{"analysis.memory", "no", "test"};
  EXPECT_EQ(time("vanilla", {alone}).memory_pass, 0);
  EXPECT_DOUBLE_EQ(time("asr", {alone}).memory_pass, 32 * 29440 / 1e6);
  EXPECT_DOUBLE_EQ(time("asr", {alone, {"asr.beta", "0", "test"}}).memory_pass, 16 * 29440 / 1e6);
  // A picture is looked at once more in every step, in replayed ones from the second stage on, and in every answer but
  // the zero-shot ones. The tower has one layer of width 4 and reads 5 positions: 2 (4 4 4 + 2 4 8) 5 + 4 5 5 4 =
  // 1,680.
  auto seeing = small_shape();
  seeing.vision_layers = 1;
  seeing.vision_width = 4;
  seeing.vision_mlp = 8;
  auto work = small_work();
  work.picture.positions = work.picture.together = 5;
  ASSERT_EQ(sample_work(seeing, work, false).vision, 1680);
  const auto looked_at = [&](const std::string& method) {
    return estimate_run(small_config(method), seeing, work, slow_gpu()).times[0];
  };
  const auto once = looked_at("bcp-mfa"), twice = looked_at("vqacl");
  EXPECT_NEAR(twice.training - once.training, 32 * 1680 / 1e6, 1e-9);
  EXPECT_NEAR(twice.method_pass - once.method_pass, 16 * 1680 / 1e6, 1e-9);
  EXPECT_NEAR(twice.evaluation - once.evaluation, 12 * 1680 / 1e6, 1e-9);
  EXPECT_EQ(twice.zero_shot, once.zero_shot);
  const auto both = time("ewc+lwf");
  EXPECT_DOUBLE_EQ(both.training, 32 * (78080 + 29440) / 1e6);
  EXPECT_DOUBLE_EQ(both.method_pass, 32 * 78080 / 1e6);
}

// Two questions about a picture, four rows a block: of every eight rows five read their picture, since after every
// other block a picture's second question is in the next one. Of the three eighths that are saved two thirds show in
// the time.
TEST(Estimate, QuestionsOfAPictureShareIt) {
  const auto time = [](const ModelShape& shape, double questions) {
    auto work = small_work();
    for (auto& task : work.tasks) task.questions = questions;
    return estimate_run(small_config("vanilla", {{"per_device_eval_batch_size", "4", "test"}}), shape, work, slow_gpu())
        .times[0];
  };
  auto shape = small_shape();
  const auto alone = time(shape, 1), two = time(shape, 2);
  EXPECT_DOUBLE_EQ(two.zero_shot, 8 * (29440 - 0.25 * 10240 + 3 * 4544) / 1e6);
  EXPECT_DOUBLE_EQ(two.evaluation, 12 * (29440 - 0.25 * 10240 + 3 * 4544) / 1e6);
  EXPECT_EQ(two.training, alone.training);
  shape.query_layers = 1;  // a Q-Former reads the question too
  EXPECT_EQ(time(shape, 2).evaluation, time(shape, 1).evaluation);
}

TEST(Estimate, MemoryByHand) {
  const auto memory = [](const std::string& method, std::vector<Assignment> more = {}) {
    return estimate_run(small_config(method, std::move(more)), small_shape(), small_work(), slow_gpu()).memory;
  };
  const auto m = memory("vanilla");
  EXPECT_EQ(m.weights, 2 * (1152 + 2 * 100 * 8));
  EXPECT_EQ(m.adapters, 4 * 2 * 2 * (16 + 12));  // rank 2, q and v of two layers
  EXPECT_EQ(m.optimizer, 3 * m.adapters);
  // A layer keeps 3 8 + 4 8 + 2 16 = 88 numbers a token, 2 bytes each; with adapters on every linear 8 + 8 + 16 more.
  const double layer = 4 * 10 * 88 * 2, logits = 16 * 4 * 2 * 100;
  EXPECT_EQ(m.training, 2 * layer + 2 * layer + logits);
  // Libtorch's own operators keep 4 8 + 5 8 + 4 16 = 136.
  auto plain = slow_gpu();
  plain.kernels = false;
  EXPECT_EQ(estimate_run(small_config("vanilla"), small_shape(), small_work(), plain).memory.training,
            4 * (4 * 10 * 136 * 2) + logits);
  EXPECT_EQ(memory("vanilla", {{"gradient_checkpointing", "yes", "test"}}).training,
            2 * 4 * 10 * 8 * 2 + 2 * layer + logits);
  EXPECT_EQ(memory("vanilla", {{"lora_sites", "all", "test"}}).training, 4 * 4 * 10 * 120 * 2 + logits);
  EXPECT_EQ(memory("asr").host - m.host, 32 * 2 * 8 * 4);  // the reference of geometry
  EXPECT_EQ(memory("ewc").method, 5 * m.adapters);
  EXPECT_EQ(memory("lwf").method, m.adapters);
  EXPECT_NEAR(memory("er").host - m.host, 32 * 640 * 480 * 3 / 7.0, 1);  // all of both tasks fit; as JPEG
  EXPECT_NEAR(memory("er", {{"er.buffer", "5", "test"}}).host - m.host, 5 * 640 * 480 * 3 / 7.0, 1);
  EXPECT_EQ(memory("er", {{"er.keep", "files", "test"}}).host, m.host);
  // A head of its own: a row of 8 for each of at most 32 answers, and two more, with gradient and both moments.
  EXPECT_EQ(memory("bcp-mfa").adapters - m.adapters, 4 * 8 * (32 + 2));
  EXPECT_EQ(memory("bcp-mfa", {{"bcp-mfa.answers", "5", "test"}}).optimizer - m.optimizer, 12 * 8 * (5 + 2));
  // Two checkpoints are kept, and a third is being written.
  const auto disk = [](const std::string& method) {
    return estimate_run(small_config(method), small_shape(), small_work(), slow_gpu()).disk;
  };
  EXPECT_EQ(disk("ewc") - disk("vanilla"), 3 * 2 * m.adapters);
  EXPECT_EQ(disk("lwf") - disk("vanilla"), 3 * m.adapters);
  EXPECT_NEAR(disk("er") - disk("vanilla"), 3.0 * 32 * 640 * 480 * 3 / 7, 1);
  EXPECT_GT(m.peak(), m.kept() + m.training);
}

TEST(Machine, ByNameAndMeasured) {
  EXPECT_EQ(gpu_named("A100-80GB").memory, 80e9);
  EXPECT_DOUBLE_EQ(gpu_named("A100-80GB").flops, 312e12 * kUtilisation);
  EXPECT_DOUBLE_EQ(gpu_named("H200").flops, 989e12 * 0.6);
  EXPECT_THROW(gpu_named("A100"), Error);
  EXPECT_EQ(gpu_at_hand(std::nullopt).name, kUsualGpu);
  EXPECT_EQ(gpu_at_hand(std::nullopt).memory, 80e9);
  // As CUDA counts the memory of an H200, of an A100 or H100, and of a card that is not in the list.
  const auto with = [](double bytes) { return gpu_at_hand(DeviceMemory{bytes / 2, bytes}); };
  EXPECT_EQ(with(150.1e9).memory, 150.1e9);
  EXPECT_EQ(with(150.1e9).flops, gpu_named("H200").flops);
  EXPECT_CONTAINS(with(150.1e9).assumption, "as fast as an H200");
  EXPECT_EQ(with(85.1e9).memory, 85.1e9);
  EXPECT_EQ(with(85.1e9).bandwidth, gpu_named("A100-80GB").bandwidth) << "the slower of the two";
  EXPECT_EQ(with(16e9).flops, gpu_named(kUsualGpu).flops);
  EXPECT_EQ(with(16e9).memory, 16e9);
  auto shape = small_shape();
  shape.width = 128;
  shape.mlp = 256;
  const auto cpu = measure_cpu(shape);
  EXPECT_GT(cpu.flops, 1e7);
  EXPECT_GT(cpu.bandwidth, 1e7);
}

// LLaVA-1.5 7B in bfloat16 on pictures of 640x480.
struct LargeRun {
  explicit LargeRun(std::vector<Assignment> more = {}) {
    std::vector<Assignment> list = {{"method", "vanilla", "test"},
                                    {"device", "cuda", "test"},
                                    {"per_device_train_batch_size", "16", "test"},
                                    {"per_device_eval_batch_size", "16", "test"}};
    list.insert(list.end(), more.begin(), more.end());
    config = resolve_run(list);
    work.tasks = {{"a", 1000, 100, 0}};
    work.picture = picture_tokens(model.shape, model.processor.get(), 480, 640);
  }
  std::string problem(double free) const { return memory_problem(config, model.shape, work, gpu_named("H200"), free); }
  double peak() const { return estimate_run(config, model.shape, work, gpu_named("H200")).memory.peak(); }

  PublishedModel model = published_model("llava-1.5-7b-hf");
  RunConfig config;
  Workload work;
};

// Short answers a second to prompts of 626 tokens on an H200, as measured there (docs/performance.md).
TEST(Answers, AreEstimatedAsTheyWereMeasured) {
  const auto a_second = [](double questions, double new_tokens) {
    LargeRun run;
    run.work.tasks = {{"a", 16, 1000, 0, questions}};
    run.work.text_tokens = 50;
    run.work.new_tokens = new_tokens;
    return 1000 / estimate_run(run.config, run.model.shape, run.work, gpu_named("H200")).times[0].zero_shot;
  };
  const auto expect_within = [](double factor, double estimated, double measured) {
    EXPECT_GT(estimated, measured / factor);
    EXPECT_LT(estimated, measured * factor);
    std::cout << "answers a second: estimated " << estimated << ", measured " << measured << "\n";
  };
  expect_within(1.1, a_second(1, 1), 66.3);
  expect_within(1.1, a_second(1, 5), 63.1);
  expect_within(1.1, a_second(5, 5), 107.2);
}

// Allocated at the peak of a step of 16 times 640 tokens, by `asr bench step` on an H200 (docs/performance.md).
TEST(DeviceMemory, StepsAreEstimatedAsTheyWereMeasured) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto expect_near = [](const char* model, std::vector<Assignment> more, double tokens, double measured) {
    LargeRun run(std::move(more));
    run.model = published_model(model);
    run.work.picture = picture_tokens(run.model.shape, run.model.processor.get(), 480, 640);
    run.work.text_tokens = 64;
    run.work.picture.visual = tokens - run.work.text_tokens;
    const auto memory = estimate_run(run.config, run.model.shape, run.work, gpu_named("H200")).memory;
    EXPECT_NEAR((memory.kept() + memory.training) / kGib, measured, 0.05 * measured) << model;
  };
  expect_near("llava-1.5-7b-hf", {}, 640, 44.7);
  expect_near("llava-1.5-7b-hf", {{"gradient_checkpointing", "yes", "test"}}, 640, 17.8);
  expect_near("llava-1.5-7b-hf", {{"base_precision", "fp8", "test"}}, 640, 56.8);
  expect_near("llava-1.5-7b-hf", {{"base_precision", "nf4", "test"}}, 640, 36.7);
  expect_near("Qwen2.5-VL-7B-Instruct", {}, 640, 49.8);
  expect_near("InternVL3-8B-hf", {}, 1344, 89.0);
  expect_near("instructblip-vicuna-7b", {}, 96, 20.0);
}

TEST(DeviceMemory, ARunThatFitsIsNotRefused) {
  const LargeRun run;
  EXPECT_EQ(run.problem(run.peak()), "");
  EXPECT_EQ(run.problem(0.86 * run.peak()), "") << "an estimate may be too large";
  EXPECT_NE(run.problem(0.84 * run.peak()), "");
}

TEST(DeviceMemory, TheBatchThatFitsIsNamed) {
  const LargeRun run;
  const double free = 0.5 * run.peak();
  const auto said = run.problem(free);
  EXPECT_CONTAINS(said, cat("about ", human_bytes(run.peak()), " are needed, and the GPU has ", human_bytes(free)));
  const auto place = said.find("per_device_train_batch_size ");
  ASSERT_NE(place, std::string::npos) << said;
  const auto batch = std::stoll(said.substr(place + 28));
  EXPECT_LT(batch, 16);
  // With it the run fits, with twice as much it does not.
  const auto peak_with = [&](int64_t samples) {
    return LargeRun({{"per_device_train_batch_size", std::to_string(samples), "test"},
                     {"per_device_eval_batch_size", "1", "test"}})
        .peak();
  };
  EXPECT_LE(peak_with(batch), free);
  EXPECT_GT(peak_with(2 * batch), 0.95 * free);
}

TEST(DeviceMemory, WhereNoBatchFitsCheckpointingOrNothingIsNamed) {
  const LargeRun run;
  const double weights = run.model.shape.weight_bytes;
  const auto one =
      LargeRun({{"per_device_train_batch_size", "1", "test"}, {"per_device_eval_batch_size", "1", "test"}});
  const auto again = LargeRun({{"per_device_train_batch_size", "1", "test"},
                               {"per_device_eval_batch_size", "1", "test"},
                               {"gradient_checkpointing", "yes", "test"}});
  constexpr double kFilled = 0.95;  // of free memory, by advice
  EXPECT_LT(again.peak(), 0.97 * one.peak());
  EXPECT_CONTAINS(run.problem((one.peak() + again.peak()) / 2 / kFilled), "with gradient_checkpointing: yes");
  EXPECT_CONTAINS(run.problem(weights), "not even a batch of 1");
}

}  // namespace
}  // namespace asr
