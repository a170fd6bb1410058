#include "train/evaluate_adapter.h"

#include "backbones/adapter_file.h"
#include "base/error.h"
#include "train/objectives.h"
#include "train/run_adapter.h"
#include "train/run_model.h"

namespace asr {

std::vector<EvaluatedTask> evaluate_adapter(const RunConfig& config, const std::string& adapter,
                                            const std::function<void(const EvaluatedTask&)>& ready) {
  const auto& run = config.run;
  if (!adapter.empty()) check_answers_in_words(adapter);
  const auto stream = make_stream(with_run_seed(run.stream, run.seeds.at(0)));
  check_task_names(run, *stream);
  check_scored(run, *stream);
  const auto model = load_run_model(config, find_model(run.model), use_device(run.device, 0, run.same_bits));
  const auto analyser = load_run_analyser(config);
  std::unique_ptr<SlotAdapter> slots;
  if (!adapter.empty() && holds_slots(adapter))
    slots = std::make_unique<SlotAdapter>(*model, adapter);
  else if (!adapter.empty())
    load_adapter(*model, adapter);
  const auto objective = language_objective();
  const PassFor pass = [&](const SampleBatch& batch) { return slots ? slots->pass_for(batch) : RoutedPass{}; };
  Answerer who{*model, *objective, pass};
  who.workers = run.workers;
  const Team alone;
  Data data(*stream, *model, *analyser, alone);
  std::vector<EvaluatedTask> out;
  for (size_t number = 0; number < stream->tasks().size(); ++number) {
    const auto& task = stream->tasks()[number];
    const auto& set = data.get(number, run.scored_split());
    EvaluatedTask done{task.name, task.metric, set.size(), {}, {}};
    done.score = evaluate_task(who, set, task.metric, run.eval_batch, alone);
    done.predictions = predictions_text(set, done.score);
    if (ready) ready(done);
    out.push_back(std::move(done));
  }
  return out;
}

}  // namespace asr
