#include "parallel/team.h"

#include <cmath>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace asr {

bool Team::any(bool mine) const {
  if (size() == 1) return mine;
  auto count = torch::full({1}, mine ? 1.0 : 0.0, at::kDouble);
  sum(count);
  return count.item<double>() > 0;
}

// Every text after its length, as one stretch of bytes.
std::vector<std::string> Team::gather_texts(const std::vector<std::string>& texts) const {
  if (size() == 1) return texts;
  std::string bytes;
  for (const auto& text : texts) {
    const uint64_t length = text.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += text;
  }
  auto mine = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), mine.data_ptr<uint8_t>());
  const auto all = gather(mine).contiguous();
  const auto* data = reinterpret_cast<const char*>(all.data_ptr<uint8_t>());
  const auto total = static_cast<uint64_t>(all.numel());
  std::vector<std::string> out;
  for (uint64_t at_byte = 0; at_byte < total;) {
    uint64_t length = 0;
    check(total - at_byte >= sizeof length, "texts of another process came in pieces");
    std::memcpy(&length, data + at_byte, sizeof length);
    at_byte += sizeof length;
    check(length <= total - at_byte, "texts of another process came in pieces");
    out.emplace_back(data + at_byte, length);
    at_byte += length;
  }
  return out;
}

Part part_of(int64_t count, int64_t rank, int64_t size) {
  return {count * rank / size, count * (rank + 1) / size};
}

Part current_samples(int64_t pass, int64_t batch, double share) {
  const auto before = [&](int64_t passes) {
    return passes * batch - std::llround(share * static_cast<double>(passes * batch));
  };
  return {before(pass), before(pass + 1)};
}

Part part_of(int64_t count, const Team& team) {
  return part_of(count, team.rank(), team.size());
}

torch::Tensor Share::whole_rows(const torch::Tensor& mine) const {
  if (team.size() == 1) return mine;
  const auto own = positions.empty() ? mine.narrow(0, 0, 0) : mine;
  const auto all = team.gather(own.detach());
  if (own.size(0) == 0) return all;
  const int64_t after = before + own.size(0);
  return at::cat({all.narrow(0, 0, before), own, all.narrow(0, after, all.size(0) - after)});
}

torch::Tensor scaled(const torch::Tensor& value, double share) {
  return share == 1 ? value : value * share;
}

}  // namespace asr
