// Resumable state on disk: checkpoints/checkpoint-<step>/ with two checksummed safetensors files and trainer_state.json
// for people and other tools. state.safetensors holds what changes from step to step and, in its metadata, the
// trainer's JSON state; kept.safetensors what is constant for a while, such as a replay buffer: it is written once, and
// checkpoints share it by a hard link. A folder appears under its name only when it is complete, so a kill at any
// moment leaves the previous checkpoints whole.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "parallel/team.h"
#include "tensor/tensor_io.h"

namespace asr {

struct Checkpoint {
  NamedTensors tensors;
  nlohmann::json state;                  // "global_step" among it
  std::string where = "the checkpoint";  // in messages
  NamedTensors apart = {};  // what kept.safetensors holds, where it was read by this process; `tensors` may be newer

  const torch::Tensor& at(const std::string& name) const;                         // a missing one is an error
  const torch::Tensor& at(const std::string& name, at::IntArrayRef shape) const;  // so is one of another shape
};

// What goes into kept.safetensors. With `same_as`, the step of an earlier checkpoint, its file is taken over.
struct KeptPart {
  NamedTensors tensors;
  std::optional<int64_t> same_as = std::nullopt;
};

// Writes, then deletes all but the newest `keep` of those up to this one.
void save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, const KeptPart& kept, int64_t keep);

struct DamagedCheckpoint {
  int64_t step = 0;
  std::string reason;  // names the file
};

// The newest that is whole, and the newer ones that are not. Changes nothing.
struct LatestCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::vector<DamagedCheckpoint> damaged;
};
enum class CheckpointPart { all, state };  // `state`: checked as a whole, but without its tensors
LatestCheckpoint find_latest_checkpoint(const std::string& folder, CheckpointPart part = CheckpointPart::all);

// The newest that is whole. Damaged ones are skipped with a warning that names them.
std::optional<Checkpoint> load_latest_checkpoint(const std::string& folder);

// Gives damaged ones the name damaged-<step>, under which they count for nothing, and says so. They would otherwise be
// the newest for ever, and push every good one out.
void set_aside(const std::string& folder, const std::vector<DamagedCheckpoint>& damaged);

// What a save that was cut short left behind.
void remove_unfinished_checkpoints(const std::string& folder);

// What process 0 has read, for all processes: the others need not see its disk.
std::optional<Checkpoint> shared_checkpoint(std::optional<Checkpoint> mine, const Team& team);

}  // namespace asr
