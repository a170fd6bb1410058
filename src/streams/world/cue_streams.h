// The streams whose stages contradict each other, made of cues (cues.h).
#pragma once

#include <vector>

#include "streams/world/world.h"

namespace asr::world {

std::vector<Stream> cue_streams();

}  // namespace asr::world
