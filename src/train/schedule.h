// Which rows of a stage's data every training pass takes, and the key under which their pictures are changed: a
// sequence that goes through a fresh permutation of the data in every epoch. All of it is keyed by seed, stage, phase
// and pass, so that it is known before the stage begins.
#pragma once

#include <optional>
#include <vector>

#include "train/run_parts.h"

namespace asr {

int64_t pass_room(const RunParts& parts, const Phase& phase);  // that a pass has room for, replayed ones too

// Rows at positions [first, first + count) of the phase's sequence.
std::vector<int64_t> sequence_rows(const RunParts& parts, const Phase& phase, Part positions);

// Every pass over the data draws anew; passes count from the phase's beginning. None where nothing is changed.
std::optional<uint64_t> augmentation_key(const RunParts& parts, const Phase& phase, int64_t pass);

// All passes of the stage that train its task, in order, without replayed samples.
std::vector<ScheduledRows> stage_schedule(const RunParts& parts);

}  // namespace asr
