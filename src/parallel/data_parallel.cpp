#include "parallel/data_parallel.h"

#include <torch/cuda.h>
#include <torch/version.h>

// clang-format off: libtorch's headers are empty without these
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef ASR_NCCL
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
// clang-format on

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <type_traits>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "tensor/cuda_facts.h"

namespace asr {
namespace {

constexpr auto kWaitForEnd = std::chrono::seconds(20);

#if TORCH_VERSION_MAJOR >= 2
using Group = c10d::Backend;
#else
using Group = c10d::ProcessGroup;
#endif

bool shares_gpus() {
  const char* value = std::getenv("ASR_SHARE_GPU");
  return value && std::string(value) == "1";
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// How long something took that has a limit: an error before it means that another process is gone.
class Patience {
 public:
  explicit Patience(int64_t seconds) : limit_(static_cast<double>(seconds)) {}
  bool ran_out() const { return now() - start_ > 0.9 * limit_; }
  // The launcher knows why a process is gone, says so and ends this one.
  void leave_it_to_launcher(const Place& place) const {
    if (place.started_by_us && !ran_out()) std::this_thread::sleep_for(kWaitForEnd);
  }

 private:
  double start_ = now(), limit_;
};

// What every process says of its rows before it sends them.
struct Header {
  static constexpr int64_t kDims = 8, kSize = kDims + 3;
  int64_t rows = 0, type = 0;
  std::vector<int64_t> rest;  // shape of a row

  torch::Tensor tensor(const torch::Tensor& t) const {
    check(t.dim() >= 1 && t.dim() <= kDims, "rows of ", t.dim(), " dimensions cannot be gathered");
    auto out = torch::zeros({kSize}, at::kLong);
    int64_t* value = out.data_ptr<int64_t>();
    value[0] = t.numel() == 0 ? 0 : t.size(0);
    value[1] = static_cast<int64_t>(t.scalar_type());
    value[2] = t.dim() - 1;
    for (int64_t i = 1; i < t.dim(); ++i) value[2 + i] = t.size(i);
    return out;
  }
  explicit Header(const int64_t* value) : rows(value[0]), type(value[1]), rest(value + 3, value + 3 + value[2]) {}
  Header() = default;
};

// An orderly end waits for what is under way; the other must not. Older versions of libtorch have neither.
template <class AnyGroup>
void leave([[maybe_unused]] AnyGroup& group, [[maybe_unused]] bool orderly) {
  if constexpr (requires { group.shutdown(), group.abort(); }) {
    if (orderly)
      group.shutdown();
    else
      group.abort();
  }
}

class Processes final : public Team {
 public:
  Processes(const Place& place, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<Group> group,
            at::Device device)
      : place_(place), store_(std::move(store)), group_(std::move(group)), device_(device) {}

  ~Processes() override {
#ifdef ASR_NCCL
    try {
      if (auto* nccl = dynamic_cast<c10d::ProcessGroupNCCL*>(group_.get()))
        leave(*nccl, !failed_ && std::uncaught_exceptions() == 0);
    } catch (const std::exception&) {  // nothing is left to be lost
    }
#endif
  }

  int64_t rank() const override {
    return place_.rank;
  }
  int64_t size() const override {
    return place_.size;
  }

  void sum(torch::Tensor& values) const override {
    auto there = values.detach().to(device_).contiguous();
    std::vector<torch::Tensor> list = {there};
    finish([&] { return group_->allreduce(list); });
    if (!there.is_same(values) && there.data_ptr() != values.data_ptr()) {
      at::NoGradGuard no_grad;
      values.copy_(there);
    }
  }

  std::function<void()> start_sum(torch::Tensor values) const override {
    const Patience patience(place_.peer_timeout);  // which the library counts from here, too
    auto there = values.detach().to(device_);
    check(there.is_contiguous(), "a sum that overlaps others must lie in one piece");
    auto list = std::make_shared<std::vector<torch::Tensor>>(1, there);
    const auto work = reached(patience, [&] { return group_->allreduce(*list); });
    return [this, patience, work, list, there, values] {
      reached(patience, [&] { return work->wait(); });
      if (there.data_ptr() == values.data_ptr()) return;
      at::NoGradGuard no_grad;
      auto place = values.detach();
      place.copy_(there);
    };
  }

  torch::Tensor gather(const torch::Tensor& rows) const override {
    const auto headers = exchange(Header().tensor(rows)).cpu();  // [size, kSize]
    std::vector<int64_t> counts;
    Header known(headers.data_ptr<int64_t>());
    int64_t most = 0;
    for (int64_t r = 0; r < size(); ++r) {
      const Header other(headers[r].data_ptr<int64_t>());
      if (known.rows == 0 && other.rows > 0) known = other;
      check(other.rows == 0 || (other.rest == known.rest && other.type == known.type), "process ", r,
            " has rows of another shape than the others; this is a defect");
      counts.push_back(other.rows);
      most = std::max(most, other.rows);
    }
    const auto type = static_cast<at::ScalarType>(known.type);
    auto shape = known.rest;
    shape.insert(shape.begin(), most);
    if (most == 0) return rows.detach();
    auto mine = torch::zeros(shape, rows.options().dtype(type).requires_grad(false));
    const int64_t held = counts[static_cast<size_t>(rank())];
    if (held > 0) mine.narrow(0, 0, held).copy_(rows.detach());
    const auto all = exchange(mine);  // [size, most, ...]
    std::vector<torch::Tensor> parts;
    for (int64_t r = 0; r < size(); ++r) parts.push_back(all[r].narrow(0, 0, counts[static_cast<size_t>(r)]));
    return at::cat(parts).to(rows.device());
  }

 private:
  // The same shape from every process, stacked by rank. Bytes travel, so that any type can.
  torch::Tensor exchange(const torch::Tensor& mine) const {
    std::vector<torch::Tensor> in = {mine.to(device_).contiguous().flatten().view(at::kByte)};
    std::vector<std::vector<torch::Tensor>> out(1);
    for (int64_t r = 0; r < size(); ++r) out[0].push_back(at::empty_like(in[0]));
    finish([&] { return group_->allgather(out, in); });
    auto shape = mine.sizes().vec();
    shape.insert(shape.begin(), size());
    return at::stack(out[0]).flatten().view(mine.scalar_type()).view(shape);
  }

  template <class Start>
  void finish(const Start& start) const {
    reached(Patience(place_.peer_timeout), [&] { return start()->wait(); });
  }

  // What `call` gives, which needs the others.
  template <class Call>
  std::invoke_result_t<Call> reached(const Patience& patience, const Call& call) const {
    try {
      return call();
    } catch (const std::exception& error) {
      failed_ = true;
      patience.leave_it_to_launcher(place_);
      if (patience.ran_out())
        fail_system("process ", rank(), " of ", size(), " has waited ", place_.peer_timeout,
                    " s for another one, which hangs, is stopped or is slow; go on with --resume, and wait longer with "
                    "--peer-timeout if it is slow");
      fail_system("process ", rank(), " of ", size(), " cannot reach the others (", printable(first_line(error.what())),
                  "); look for the message of the one that stopped first, then go on with --resume");
    }
  }

  Place place_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<Group> group_;
  at::Device device_;  // where exchanged tensors lie
  mutable bool failed_ = false;
};

int64_t number_of(const char* name, int64_t low, int64_t high, std::optional<int64_t> fallback = {}) {
  const char* text = std::getenv(name);
  if (!text && fallback) return *fallback;
  int64_t value = 0;
  check(text && parse_int(text, value) && value >= low && value <= high, name, "='", printable(text ? text : ""),
        "': must be a number from ", low, " to ", high);
  return value;
}

c10::intrusive_ptr<Group> gloo_group(const Place& place, const c10::intrusive_ptr<c10d::Store>& store) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(std::chrono::seconds(place.peer_timeout));
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices = {interface                        ? Gloo::createDeviceForInterface(interface)
                      : place.local_size == place.size ? Gloo::createDeviceForHostname("127.0.0.1")
                                                       : Gloo::createDefaultDevice()};
  return c10::make_intrusive<Gloo>(store, static_cast<int>(place.rank), static_cast<int>(place.size), options);
}

c10::intrusive_ptr<Group> nccl_group([[maybe_unused]] const Place& place,
                                     [[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store) {
#ifdef ASR_NCCL
  // Else a wait returns before the sum is there, and a process that is stuck or gone is noticed by the library's
  // watchdog alone, which aborts this one. We wait where the numbers are needed and not before.
  setenv("TORCH_NCCL_BLOCKING_WAIT", "1", /*overwrite=*/0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::seconds(place.peer_timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(place.rank), static_cast<int>(place.size),
                                                     options);
#else
  fail("device=cuda over several processes: this build has no NCCL; build where nccl.h is installed");
#endif
}

}  // namespace

std::optional<Place> place_from_environment() {
  if (!std::getenv("RANK") && !std::getenv("WORLD_SIZE")) return std::nullopt;
  std::vector<std::string> missing;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (const char* value = std::getenv(name); !value || !*value) missing.emplace_back(name);
  check(missing.empty(), missing.empty() ? "" : cat(join(missing, ", "), missing.size() == 1 ? " is" : " are"),
        " not set, though ", std::getenv("WORLD_SIZE") ? "WORLD_SIZE" : "RANK",
        " is; a launcher of several processes sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each (or use "
        "--processes)");
  Place place;
  place.size = number_of("WORLD_SIZE", 1, 100000);
  place.rank = number_of("RANK", 0, place.size - 1);
  place.local_rank = number_of("LOCAL_RANK", 0, place.size - 1, 0);
  place.local_size = number_of("LOCAL_WORLD_SIZE", 1, place.size, 1);
  place.port = static_cast<uint16_t>(number_of("MASTER_PORT", 1, 65535));
  place.address = std::getenv("MASTER_ADDR");
  place.started_by_us = std::getenv("ASR_LAUNCHER") != nullptr;
  return place;
}

void check_gpus(int64_t processes) {
  const auto count = static_cast<int64_t>(torch::cuda::device_count());
  if (count == 0) check_cuda("device=cuda");
  check(processes <= count || shares_gpus(), "device=cuda: ", processes, " processes on this machine, but it has ",
        count, count == 1 ? " GPU" : " GPUs", "; use --processes ", count);
}

int gpu_of(const Place& place) {
  check_gpus(place.local_rank + 1);
  return static_cast<int>(place.local_rank % static_cast<int64_t>(torch::cuda::device_count()));
}

namespace {

// Waits until every process has come to the store.
void meet(c10d::Store& store, const Place& place) {
  const auto name = [](int64_t rank) { return cat("asr/here/", rank); };
  std::vector<std::string> all, missing;
  for (int64_t rank = 0; rank < place.size; ++rank) all.push_back(name(rank));
  store.set(name(place.rank), std::vector<uint8_t>{1});
  try {
    store.wait(all, std::chrono::seconds(place.connect_timeout));
    return;
  } catch (const std::exception&) {  // a store without its server says so below
    for (int64_t rank = 0; rank < place.size; ++rank)
      if (!store.check({name(rank)})) missing.push_back(std::to_string(rank));
  }
  fail_system("process ", place.rank, " of ", place.size, " has waited ", place.connect_timeout,
              " s for others to start; missing: ", join(missing, ", "),
              "; are all started, with the same MASTER_ADDR and MASTER_PORT? --connect-timeout waits longer");
}

}  // namespace

std::unique_ptr<Team> join_team(const Place& place, at::Device device) {
  const bool nccl = device.is_cuda() && !shares_gpus();
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && !place.started_by_us;
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(place.connect_timeout);
  const Patience patience(place.connect_timeout);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(place.address, options);
    meet(*store, place);
    auto group = nccl ? nccl_group(place, store) : gloo_group(place, store);
    auto team = std::make_unique<Processes>(place, store, group, nccl ? device : at::Device(at::kCPU));
    team->any(false);
    return team;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    patience.leave_it_to_launcher(place);
    fail_system("process ", place.rank, " of ", place.size, " cannot meet the others at ", printable(place.address),
                ":", place.port, " (", printable(first_line(error.what())), "); are all ", place.size,
                " started, and is MASTER_ADDR the machine of process 0? --connect-timeout waits longer");
  }
}

struct Meeting::Inside {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

Meeting::Meeting() : inside_(std::make_unique<Inside>()) {
  c10d::TCPStoreOptions options;
  options.port = 0;  // any that is free
  options.isServer = true;
  options.waitWorkers = false;
  try {
    inside_->store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  } catch (const std::exception& error) {
    fail_system("no port can be opened for the processes to meet (", printable(first_line(error.what())), ")");
  }
}

Meeting::~Meeting() = default;

uint16_t Meeting::port() const {
  return inside_->store->getPort();
}

}  // namespace asr
