#include "train/schedule.h"

#include "base/random.h"

namespace asr {

int64_t pass_room(const RunParts& parts, const Phase& phase) {
  return phase.batch > 0 ? phase.batch : parts.config.run.batch;
}

std::vector<int64_t> sequence_rows(const RunParts& parts, const Phase& phase, Part positions) {
  std::vector<int64_t> out, permutation;
  int64_t epoch_of_permutation = -1;
  for (int64_t p = positions.begin; p < positions.end; ++p) {
    const int64_t epoch = p / phase.samples;
    if (epoch != epoch_of_permutation) {
      permutation = range(0, phase.samples);
      Random({parts.seed(), 0x54f1, phase_key(parts.at.stage, phase), static_cast<uint64_t>(epoch)})
          .shuffle(permutation);
      epoch_of_permutation = epoch;
    }
    const int64_t row = permutation[static_cast<size_t>(p % phase.samples)];
    out.push_back(phase.rows.empty() ? row : phase.rows[static_cast<size_t>(row)]);
  }
  return out;
}

std::optional<uint64_t> augmentation_key(const RunParts& parts, const Phase& phase, int64_t pass) {
  const auto& run = parts.config.run;
  if (!run.augments()) return std::nullopt;
  return Random({parts.seed(), 0xa496, static_cast<uint64_t>(parts.at.stage),
                 static_cast<uint64_t>(phase.first * run.accumulation + pass)})
      .next();
}

std::vector<ScheduledRows> stage_schedule(const RunParts& parts) {
  const double replayed = parts.replay_share(parts.at.stage);
  std::vector<ScheduledRows> out;
  for (const auto& phase : parts.phases(parts.at.stage)) {
    if (!phase.of_method.empty() || !phase.runs_model) continue;
    const int64_t passes = phase.steps * parts.config.run.accumulation, room = pass_room(parts, phase);
    const auto rows = sequence_rows(parts, phase, {0, current_samples(passes - 1, room, replayed).end});
    for (int64_t pass = 0; pass < passes; ++pass) {
      const auto current = current_samples(pass, room, replayed);
      out.push_back({{rows.begin() + current.begin, rows.begin() + current.end}, augmentation_key(parts, phase, pass)});
    }
  }
  return out;
}

}  // namespace asr
