// How a batch is shared out, and how processes exchange tensors; here every process is a thread.
#include "parallel/data_parallel.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "base/error.h"
#include "nn/adamw.h"
#include "nn/linear.h"
#include "tests/support/files.h"
#include "train/checkpoint.h"
#include "train/gradient_sum.h"

namespace asr {
namespace {

TEST(Parts, HoldEverythingOnceInOrder) {
  for (int64_t size = 1; size <= 17; ++size)
    for (int64_t count = 0; count <= 70; ++count) {
      int64_t next = 0, smallest = count, largest = 0;
      for (int64_t rank = 0; rank < size; ++rank) {
        const auto part = part_of(count, rank, size);
        ASSERT_EQ(part.begin, next) << count << " over " << size;
        ASSERT_GE(part.size(), 0);
        smallest = std::min(smallest, part.size());
        largest = std::max(largest, part.size());
        next = part.end;
      }
      ASSERT_EQ(next, count);
      ASSERT_LE(largest - smallest, 1);
    }
  EXPECT_EQ(part_of(int64_t(1) << 40, 1023, 1024).end, int64_t(1) << 40);
  EXPECT_EQ(part_of(7, Team()).size(), 7);
}

TEST(CurrentSamples, KeepTheirShareAtEveryBatch) {
  for (const double share : {0.01, 0.25, 0.3, 0.5, 0.99})
    for (const int64_t batch : {1, 2, 3, 6, 16}) {
      int64_t end = 0;
      for (int64_t pass = 0; pass < 400; ++pass) {
        const auto part = current_samples(pass, batch, share);
        ASSERT_EQ(part.begin, end) << "no sample is left out or taken twice";
        ASSERT_GE(part.size(), 0);
        ASSERT_LE(part.size(), batch);
        end = part.end;
        ASSERT_NEAR(static_cast<double>(end), (1 - share) * static_cast<double>((pass + 1) * batch), 0.5 + 1e-6);
      }
    }
  for (int64_t pass = 0; pass < 50; ++pass) {
    EXPECT_EQ(current_samples(pass, 16, 0.25).size(), 12) << "where it comes out even, every batch is alike";
    EXPECT_EQ(current_samples(pass, 8, 0.25).size(), 6);
    EXPECT_EQ(current_samples(pass, 5, 0).size(), 5);
  }
  EXPECT_NE(current_samples(0, 2, 0.25).size(), current_samples(1, 2, 0.25).size()) << "otherwise they alternate";
}

// Runs `body` as every process of a team of `size`.
void together(int64_t size, const std::function<void(const Team&)>& body) {
  const Meeting meeting;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<size_t>(size));
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Place place;
        place.rank = rank;
        place.size = place.local_size = size;
        place.address = "127.0.0.1";
        place.port = meeting.port();
        place.started_by_us = true;
        const auto team = join_team(place, at::kCPU);
        body(*team);
        team->any(false);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(DataParallel, GathersRowsOfAnySizeAndTypeInOrder) {
  together(3, [](const Team& team) {
    // Process r holds r rows: the first has none, and no idea of their shape.
    const int64_t r = team.rank();
    for (const auto type : {at::kFloat, at::kDouble, at::kLong, at::kByte, at::kBool, at::kBFloat16}) {
      const auto mine = r == 0 ? at::empty({0}, at::kFloat) : torch::full({r, 2, 3}, r, at::kLong).to(type);
      const auto all = team.gather(mine);
      ASSERT_EQ(all.sizes().vec(), (std::vector<int64_t>{3, 2, 3}));
      EXPECT_TRUE(
          all.equal(at::cat({torch::full({1, 2, 3}, 1, at::kLong), torch::full({2, 2, 3}, 2, at::kLong)}).to(type)));
    }
    EXPECT_EQ(team.gather(at::empty({0}, at::kFloat)).numel(), 0);
    std::vector<std::string> texts(static_cast<size_t>(r), "text\n of " + std::to_string(r));
    texts.push_back("");
    EXPECT_EQ(team.gather_texts(texts),
              (std::vector<std::string>{"", "text\n of 1", "", "text\n of 2", "text\n of 2", ""}));
    EXPECT_TRUE(team.any(r == 1));
    EXPECT_FALSE(team.any(false));
  });
}

TEST(DataParallel, SumsAreTheSameBitsEverywhere) {
  together(3, [](const Team& team) {
    at::manual_seed(static_cast<uint64_t>(1));
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(7 + team.rank()));
    auto values = at::randn({10007}, generator, at::CPU(at::kFloat));
    team.sum(values);
    const auto all = team.gather(values.unsqueeze(0));
    EXPECT_TRUE(all[0].equal(all[1]) && all[0].equal(all[2]));
    auto part = torch::ones({4, 4}, at::kDouble).select(1, 2);  // a view with gaps
    team.sum(part);
    EXPECT_TRUE(part.equal(torch::full({4}, 3.0, at::kDouble)));
  });
}

// Gradients of a few parameters, each process with data of its own; the last parameter is not used.
struct SummedGradients {
  explicit SummedGradients(int64_t rank) : data(at::detail::createCPUGenerator(static_cast<uint64_t>(rank))) {
    auto same = at::detail::createCPUGenerator(99);
    for (const int64_t size : {7, 40, 3, 64, 1, 12, 5})
      parameters.push_back(at::randn({size}, same, at::CPU(at::kFloat)).requires_grad_());
    optimizer.emplace(parameters, AdamWOptions());
  }
  void backward() {
    auto loss = torch::zeros({});
    for (size_t i = 0; i + 1 < parameters.size(); ++i) {
      const auto x = at::randn(parameters[i].sizes(), data, at::CPU(at::kFloat));
      loss = loss + (parameters[i] * x).sum().sin();
    }
    loss.backward();
  }
  at::Generator data;
  std::vector<torch::Tensor> parameters;
  std::optional<AdamW> optimizer;
};

TEST(DataParallel, GradientsSummedDuringTheBackwardPassAreTheSameBits) {
  for (const int64_t size : {2, 3})
    together(size, [size](const Team& team) {
      SummedGradients plain(team.rank()), overlapped(team.rank()), whole(team.rank());
      GradientSum plain_sum(team, plain.parameters, plain.optimizer->gradient(), 16),
          overlapped_sum(team, overlapped.parameters, overlapped.optimizer->gradient(), 16);
      EXPECT_EQ(plain_sum.stretches(), 4);
      for (int step = 0; step < 3; ++step) {
        for (auto* side : {&plain, &overlapped, &whole}) {
          side->optimizer->zero_grad();
          side->backward();  // an earlier pass of the same step
        }
        plain.backward();
        overlapped_sum.overlap();
        overlapped.backward();
        whole.backward();
        plain_sum.finish();
        overlapped_sum.finish();
        team.sum(whole.optimizer->gradient());
        EXPECT_EQ(plain_sum.started_early(), 0);
        // The unused parameter lies in the stretch that goes first, so all wait for the end of the pass.
        EXPECT_EQ(overlapped_sum.started_early(), 0);
        EXPECT_TRUE(overlapped.optimizer->gradient().equal(plain.optimizer->gradient()));
        const auto difference = (whole.optimizer->gradient() - plain.optimizer->gradient()).abs().max().item<float>();
        EXPECT_LE(difference, size == 2 ? 0 : 1e-5);
        EXPECT_GE(overlapped_sum.waited(), 0);
      }
    });
}

TEST(DataParallel, StretchesGoOutWhileGradientsAreMade) {
  together(2, [](const Team& team) {
    SummedGradients plain(team.rank()), overlapped(team.rank());
    for (auto* side : {&plain, &overlapped}) side->parameters.pop_back();  // all that are left are used
    const auto flat = [](SummedGradients& side) { return side.optimizer->gradient().narrow(0, 0, 127); };
    GradientSum sum(team, overlapped.parameters, flat(overlapped), 16);
    plain.parameters.push_back(torch::zeros({1}).requires_grad_());
    overlapped.parameters.push_back(torch::zeros({1}).requires_grad_());
    for (int step = 0; step < 2; ++step) {
      plain.optimizer->zero_grad();
      overlapped.optimizer->zero_grad();
      plain.backward();
      sum.overlap();
      overlapped.backward();
      sum.finish();
      auto expected = flat(plain);
      team.sum(expected);
      EXPECT_EQ(sum.started_early(), sum.stretches());
      EXPECT_TRUE(flat(overlapped).equal(expected));
    }
  });
}

TEST(DataParallel, GradientsOfAWholeBatchReachOwnRows) {
  together(3, [](const Team& team) {
    const auto whole = torch::arange(1, 5, at::kDouble);  // four samples: 1, 1 and 2 of them
    Share share{team};
    const auto part = part_of(4, team);
    share.positions.assign(static_cast<size_t>(part.size()), 0);
    share.before = part.begin;
    auto x = whole.narrow(0, part.begin, part.size()).clone().requires_grad_();
    const auto all = share.whole_rows(x);
    EXPECT_TRUE(all.detach().equal(whole));
    all.prod().backward();  // d/dx_i = product of the others
    EXPECT_TRUE(x.grad().allclose(24 / x.detach()));
  });
}

TEST(DataParallel, TheLeadersCheckpointIsEverybodys) {
  together(2, [](const Team& team) {
    std::optional<Checkpoint> mine;
    EXPECT_FALSE(shared_checkpoint(std::nullopt, team).has_value());
    if (team.leads()) {
      mine.emplace();
      mine->state = {{"global_step", 3}};
      mine->tensors = {{"a", torch::arange(6, at::kFloat).view({2, 3})},
                       {"none", at::empty({0}, at::kLong)},
                       {"scalar", torch::full({}, 5, at::kLong)},
                       {"bytes", torch::ones({3}, at::kByte)}};
    }
    const auto all = shared_checkpoint(std::move(mine), team);
    ASSERT_TRUE(all.has_value());
    EXPECT_EQ(all->state["global_step"].get<int>(), 3);
    EXPECT_TRUE(all->at("a").equal(torch::arange(6, at::kFloat).view({2, 3})));
    EXPECT_EQ(all->at("none").numel(), 0);
    EXPECT_EQ(all->at("scalar").item<int64_t>(), 5);
    EXPECT_EQ(all->at("bytes").scalar_type(), at::kByte);
  });
}

TEST(DataParallel, ASampleIsMaskedAsInTheWholeBatch) {
  for (const int64_t width : {8, 5}) {
    const auto x = torch::ones({7, 3, width});
    AdapterDropout whole{0.3, 11}, part{0.3, 11};
    part.positions = {2, 3, 6};
    for (int call = 0; call < 2; ++call) {
      const auto all = keyed_dropout(x, whole.key_for(x));
      const auto few = x.narrow(0, 0, 3);
      EXPECT_TRUE(keyed_dropout(few, part.key_for(few)).equal(at::stack({all[2], all[3], all[6]})));
    }
  }
  // On a GPU one copy of the places serves all calls of a pass.
  AdapterDropout pass{0.3, 11};
  pass.positions = {2, 3, 6};
  pass.positions_there = torch::tensor(pass.positions, at::kLong);
  const auto x = torch::ones({3, 8});
  for (int call = 0; call < 2; ++call) {
    const auto key = pass.key_for(x);
    EXPECT_TRUE(key.positions_there.is_same(pass.positions_there));
    EXPECT_TRUE(positions_on(at::kCPU, key).is_same(pass.positions_there));
  }
}

TEST(DataParallel, HalfAnEnvironmentIsRefused) {
  const auto set = [](const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); };
  EXPECT_FALSE(place_from_environment().has_value());
  set("WORLD_SIZE", "2");
  EXPECT_CONTAINS(error_of([] { place_from_environment(); }),
                  "RANK, MASTER_ADDR, MASTER_PORT are not set, though WORLD_SIZE is");
  set("RANK", "2");
  set("MASTER_PORT", "29500");
  EXPECT_CONTAINS(error_of([] { place_from_environment(); }), "MASTER_ADDR is not set, though WORLD_SIZE is");
  set("MASTER_ADDR", "node1");
  EXPECT_CONTAINS(error_of([] { place_from_environment(); }), "RANK='2': must be a number from 0 to 1");
  set("RANK", "1");
  const auto place = place_from_environment();
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->size, 2);
  EXPECT_EQ(place->port, 29500);
  for (const char* name : {"WORLD_SIZE", "RANK", "MASTER_PORT", "MASTER_ADDR"}) set(name, nullptr);
}

}  // namespace
}  // namespace asr
