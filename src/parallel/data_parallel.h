// One run over several processes: where this process stands among them, and how they meet and exchange tensors. CPUs
// talk through gloo, GPUs through NCCL. c10d is used in data_parallel.cpp and nowhere else.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "parallel/team.h"

namespace asr {

// A process among those that train together, as a launcher tells it in RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT.
struct Place {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  // among those on this machine
  std::string address;                     // where they meet
  uint16_t port = 0;
  bool started_by_us = false;  // by 'asr run --processes', which hosts the meeting place and ends all if one dies
  // Seconds to wait for the others: for all to come, and later for the slowest (one may be writing a checkpoint).
  int64_t connect_timeout = 60, peer_timeout = 300;
};

// Empty where neither RANK nor WORLD_SIZE is set; half of the variables, or impossible values, are an error.
std::optional<Place> place_from_environment();

// Which GPU a process takes: that of its number on the machine. Fails where there are fewer, unless ASR_SHARE_GPU=1
// lets processes share them (they then talk through gloo; for tests).
int gpu_of(const Place& place);
void check_gpus(int64_t processes);

// Waits for all processes to come, then returns the team of them; those that do not come in time are named. `device` is
// where this one computes.
std::unique_ptr<Team> join_team(const Place& place, at::Device device);

// Where processes on this machine meet, while the object lives.
class Meeting {
 public:
  Meeting();
  ~Meeting();
  uint16_t port() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace asr
