// Threads of a block as fibers: each runs until it meets a barrier or ends, then the next.
#include <ucontext.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "ops/cuda_kernels.h"
#include "tests/cuda_on_host/cuda_runtime.h"

namespace asr::cuda_on_host {
namespace {

constexpr size_t kStack = 128 * 1024, kMostThreads = 1024, kSlot = 64;
constexpr unsigned kWarp = 32;

enum class State { ready, at_block_barrier, at_warp_barrier, done };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<unsigned char[]> stack;
  State state = State::done;
};

struct Machine {
  std::vector<Fiber> fibers = std::vector<Fiber>(kMostThreads);
  std::vector<unsigned char> slots = std::vector<unsigned char>(kMostThreads * kSlot), shared;
  ucontext_t scheduler;
  unsigned threads = 0, current = 0;
  Order order = Order::upwards;
  const std::function<void()>* work = nullptr;
};
Machine g_machine;

void thread_main() {
  auto& m = g_machine;
  (*m.work)();
  m.fibers[m.current].state = State::done;
}

void wait_as(State state) {
  auto& m = g_machine;
  auto& fiber = m.fibers[m.current];
  fiber.state = state;
  swapcontext(&fiber.context, &m.scheduler);
}

void resume(unsigned thread) {
  auto& m = g_machine;
  m.current = thread;
  threadIdx = dim3(thread);
  swapcontext(&m.scheduler, &m.fibers[thread].context);
}

// Those of [begin, end) that are not done wait there: they may go on.
bool release(unsigned begin, unsigned end, State barrier, bool done_count) {
  auto& fibers = g_machine.fibers;
  bool any = false;
  for (unsigned i = begin; i < end; ++i) {
    if (fibers[i].state == State::done && done_count) continue;
    if (fibers[i].state != barrier) return false;
    any = true;
  }
  for (unsigned i = begin; i < end; ++i)
    if (fibers[i].state == barrier) fibers[i].state = State::ready;
  return any;
}

void begin(unsigned thread) {
  auto& m = g_machine;
  auto& fiber = m.fibers[thread];
  if (!fiber.stack) fiber.stack = std::make_unique<unsigned char[]>(kStack);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = &m.scheduler;
  makecontext(&fiber.context, thread_main, 0);
  fiber.state = State::ready;
}

bool run_ready() {
  auto& m = g_machine;
  bool any = false;
  for (unsigned k = 0; k < m.threads; ++k) {
    const unsigned thread = m.order == Order::upwards ? k : m.threads - 1 - k;
    if (m.fibers[thread].state != State::ready) continue;
    resume(thread);
    any = true;
  }
  return any;
}

// A warp's barrier needs all its lanes, as the masks of our kernels say; the block's those that have not returned.
bool release_barriers() {
  auto& m = g_machine;
  bool any = release(0, m.threads, State::at_block_barrier, true);
  for (unsigned first = 0; first < m.threads; first += kWarp)
    any = release(first, std::min(m.threads, first + kWarp), State::at_warp_barrier, false) || any;
  return any;
}

void run_block() {
  auto& m = g_machine;
  std::fill(m.shared.begin(), m.shared.end(), 0xff);  // not a number, whoever reads it unwritten
  for (unsigned thread = 0; thread < m.threads; ++thread) begin(thread);
  while (run_ready() || release_barriers()) {
  }
  for (unsigned thread = 0; thread < m.threads; ++thread)
    if (m.fibers[thread].state != State::done)
      throw std::runtime_error("a kernel waits for threads that never come to its barrier");
}

}  // namespace

void set_order(Order order) {
  g_machine.order = order;
}

void run(const Launch& launch, const std::function<void()>& thread) {
  auto& m = g_machine;
  m.threads = launch.block.x;
  if (m.threads == 0 || m.threads > kMostThreads || launch.block.y * launch.block.z != 1)
    throw std::runtime_error("a block of that shape is not foreseen here");
  if (static_cast<int64_t>(launch.shared) > cuda::kLaunchRoom)
    throw std::runtime_error("a launch asks for more shared memory than a block has");
  if (launch.grid.y > cuda::kMostBlocksDown || launch.grid.z > cuda::kMostBlocksDown)
    throw std::runtime_error("a grid has more blocks in its second or third direction than a GPU takes");
  m.shared.resize(launch.shared);
  m.work = &thread;
  gridDim = launch.grid;
  blockDim = launch.block;
  for (unsigned z = 0; z < launch.grid.z; ++z)
    for (unsigned y = 0; y < launch.grid.y; ++y)
      for (unsigned x = 0; x < launch.grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        run_block();
      }
}

void block_barrier() {
  wait_as(State::at_block_barrier);
}

void warp_barrier() {
  wait_as(State::at_warp_barrier);
}

unsigned char* lane_slot(unsigned lane) {
  return &g_machine.slots[(g_machine.current / kWarp * kWarp + lane) * kSlot];
}

void* shared_bytes() {
  return g_machine.shared.data();
}

}  // namespace asr::cuda_on_host
