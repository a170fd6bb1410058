#include "data/walk.h"

#include <algorithm>
#include <optional>

#include "base/progress.h"

namespace asr {

int stop_signal(const Team& team, StopPlace place) {
  const int mine = interrupted(place);
  if (team.size() == 1) return mine;
  auto heard = torch::tensor({mine == SIGINT ? 1.0 : 0.0, mine == SIGTERM ? 1.0 : 0.0}, at::kDouble);
  team.sum(heard);
  const double* count = heard.data_ptr<double>();
  return count[1] > 0 ? SIGTERM : count[0] > 0 ? SIGINT : 0;
}

void each_block(const Walk& walk, const Team& team, const std::function<void(Part rows, Part next)>& body) {
  const int64_t blocks = (walk.samples + walk.block - 1) / walk.block, sharers = walk.shared ? team.size() : 1;
  const auto mine = walk.shared ? part_of(blocks, team) : Part{0, blocks};
  const auto rows = [&](int64_t i, int64_t count = 1) {
    const int64_t end = std::min(i + count, mine.end);
    return i < end ? Part{i * walk.block, std::min(walk.samples, end * walk.block)} : Part{};
  };
  std::optional<Progress> progress;
  if (team.leads()) progress.emplace(walk.label, walk.samples, Progress::Ends::unseen);
  // Every process looks as often as the one with most blocks, so that all stop together.
  for (int64_t i = mine.begin; i < mine.begin + (blocks + sharers - 1) / sharers; ++i) {
    if (i < mine.end) body(rows(i), rows(i + 1, walk.ahead));
    if (const int number = stop_signal(team))
      throw Stopped(cat("stopped in \"", walk.label, "\"; go on with --resume"), number);
    if (progress) progress->advance(rows(i).size() * sharers);
  }
  if (progress) progress->finish();
}

}  // namespace asr
