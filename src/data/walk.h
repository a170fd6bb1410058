// A walk over many samples outside training: answering, measuring, references, Fisher. It shows how far it is, and a
// signal stops it between two blocks, in all processes at the same block.
#pragma once

#include <functional>
#include <string>

#include "base/interrupt.h"
#include "parallel/team.h"

namespace asr {

struct Walk {
  std::string label;  // what is done, for the progress line and the message of a stop: "answer color"
  int64_t samples = 0, block = 1;
  bool shared = true;  // the processes share the blocks out; otherwise each does all of them
  int64_t ahead = 1;   // blocks that `body` is told of beforehand
};

// Calls `body` for this process's blocks in order, with the rows of the block and of those after it (none at the
// end).
void each_block(const Walk& walk, const Team& team, const std::function<void(Part rows, Part next)>& body);

// The signal that any process has heard, the same for all; 0: none. Every process must come here.
int stop_signal(const Team& team, StopPlace place = StopPlace::walk);

}  // namespace asr
