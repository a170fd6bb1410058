#include "train/announce.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "tensor/runtime.h"

namespace asr {
namespace {

constexpr int64_t kLookedAt = 16;     // texts a task
constexpr double kPromptTokens = 14;  // of a prompt around the question
constexpr size_t kShownScores = 12;   // a row stays readable

std::string counted(int64_t count, const char* one, const char* many) {
  return cat(count, " ", count == 1 ? one : many);
}

std::string type_name(const torch::Tensor& tensor) {
  auto text = cat(tensor.scalar_type());
  if (text == "Float") return "float32";
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

Workload workload_of(const Stream& stream, const RunOptions& run, const Backbone& model, const ModelShape& shape) {
  Workload out;
  double texts = 0, question = 0, answer = 0, longest = 0;
  for (size_t task = 0; task < stream.tasks().size(); ++task) {
    const auto& t = stream.tasks()[task];
    const auto split = run.scored_split();
    out.tasks.push_back({t.name, stream.size(task, DataSplit::train), stream.size(task, split),
                         t.novel ? stream.size(task, DataSplit::novel) : int64_t(0),
                         questions_a_picture(stream, task, split)});
    for (int64_t i = 0; i < std::min(kLookedAt, stream.size(task, split)); ++i) {
      const auto sample = stream.text(task, split, i);
      const auto said = static_cast<double>(model.tokenizer().encode(sample.answer).size());
      question += static_cast<double>(model.tokenizer().encode(sample.question).size());
      answer += said;
      longest = std::max(longest, said);
      ++texts;
    }
  }
  out.question_tokens = question / texts;
  out.answer_tokens = answer / texts + 1;
  out.text_tokens = out.question_tokens + out.answer_tokens + (shape.built_in() ? 1 : kPromptTokens);
  out.new_tokens = longest + 1;
  return out;
}

std::vector<std::string> header_lines(const HeaderFacts& facts) {
  const auto& run = facts.config.run;
  const auto shape = read_model_shape(facts.model_path);
  auto work = workload_of(facts.stream, run, facts.model, shape);
  std::error_code error;
  const bool folder = std::filesystem::is_directory(facts.model_path, error);
  const auto processor = folder ? load_image_processor(facts.model_path) : nullptr;
  work.picture = picture_tokens(shape, processor.get(), 480, 640);
  auto machine = run.device == "cuda" ? gpu_at_hand(device_memory()) : measure_cpu(shape);
  machine.processes = facts.processes;
  const auto estimate = estimate_run(facts.config, shape, work, machine);
  const auto tasks = static_cast<int64_t>(work.tasks.size());
  const auto threads = compute_threads();
  std::vector<std::string> out;
  out.push_back(cat("stream    ", facts.stream.name(), ", ", counted(tasks, "task", "tasks"), ", ",
                    fmt::format("{:.0f} training and {:.0f} scored samples", work.train(), work.scored())));
  out.push_back(cat("model     ", facts.model.name(), " on ", run.device, ", ",
                    facts.processes > 1 ? counted(facts.processes, "process", "processes") + ", " : std::string(),
                    run.device == "cpu" ? counted(threads, "thread", "threads") + ", " : std::string(), "weights in ",
                    type_name(facts.model.token_embedding()), ", ", facts.trainable, " trained numbers in float32"));
  out.push_back(cat(
      "work      ",
      facts.runs > 1 ? cat(facts.runs, " runs (", join(run.method, ", "), "), the first of ") : run.method[0] + ", ",
      counted(facts.steps, "step", "steps"), " of ", run.batch * run.accumulation, " samples, ",
      fmt::format("{:.0f} answers", work.answers())));
  out.push_back(cat("expected  about ", human_duration(estimate.seconds), " and ", human_bytes(estimate.memory.peak()),
                    machine.gpu ? cat(" on ", machine.name) : std::string(),
                    ", by formulas that count neither loading nor other work on the machine"));
  if (!facts.config.preset_note.empty()) out.push_back(cat("preset    ", facts.config.preset_note));
  out.push_back(cat("folder    ", run.output_dir));
  return out;
}

std::string score_row(const std::vector<std::string>& tasks, const std::vector<double>& scores) {
  const size_t first = scores.size() > kShownScores ? scores.size() - kShownScores : 0;
  std::string out = first > 0 ? cat("... ") : std::string();
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    sum += scores[i];
    if (i >= first) out += cat(i > first ? ", " : "", printable(tasks.at(i), 24), fmt::format(" {:.1f}", scores[i]));
  }
  return out + fmt::format("; mean {:.1f}", scores.empty() ? 0 : sum / static_cast<double>(scores.size()));
}

}  // namespace asr
