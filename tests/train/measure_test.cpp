// The moments of a stage: as those of all its samples at once to the last bit, in memory that does not grow with it,
// by any number of processes; and which methods have them measured.
#include "data/measure.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "io/analysis_file.h"
#include "spectral/memory.h"
#include "tensor/torch_compat.h"
#include "tests/train/run_support.h"
#include "train/data.h"
#include "train/run_folder.h"
#include "train/run_identity.h"

namespace asr {
namespace {

RoutedPass plain_pass(const SampleBatch&) {
  return {};
}

using nlohmann::json;

std::atomic<int64_t> g_held{0}, g_most{0};  // bytes of CPU tensors

// While it lives, all memory of CPU tensors is counted.
class CountedMemory final : public c10::Allocator {
 public:
  CountedMemory() : inner_(c10::GetCPUAllocator()) {
    g_held = g_most = 0;
    c10::SetCPUAllocator(this, /*priority=*/100);
  }
  ~CountedMemory() override { c10::SetCPUAllocator(inner_, /*priority=*/100); }

  c10::DataPtr allocate(size_t bytes) ASR_ALLOCATE_CONST override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    void* block = nullptr;
    EXPECT_EQ(posix_memalign(&block, sizeof(Header), bytes + sizeof(Header)), 0);
    auto* header = new (block) Header{static_cast<int64_t>(bytes)};
    const int64_t now = g_held += header->bytes;
    int64_t most = g_most;
    while (now > most && !g_most.compare_exchange_weak(most, now)) {
    }
    return {header + 1, header + 1, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  ASR_ALLOCATOR_COPY

 private:
  struct alignas(64) Header {
    int64_t bytes;
  };
  static void release(void* data) {
    if (!data) return;
    auto* header = static_cast<Header*>(data) - 1;
    g_held -= header->bytes;
    std::free(header);
  }
  c10::Allocator* inner_;
};

class StageMeasure : public ::testing::Test {
 protected:
  // `copies` times the same samples.
  std::shared_ptr<SampleSet> stage_samples(int64_t count, size_t copies = 1) {
    auto list = small_run(folder / "model", folder / "out", "asr");
    list.push_back({"stream.train", std::to_string(count), "test"});
    const auto config = resolve_run(list);
    const auto stream = make_stream(config.run.stream);
    if (!model) {
      write_small_model(folder / "model");
      model = load_backbone(folder / "model");
      analyser = make_analyser(config.run.parser, SkillMode::soft);
    }
    Data data(*stream, *model, *analyser, alone);
    return concatenate(std::vector<const SampleSet*>(copies, &data.get(0, DataSplit::train)));
  }
  StageMoments measured(const SampleSet& set, const Options& options, const Team& team = {}) {
    return stage_moments({*model, plain_pass, options, 2}, {set, range(0, set.size()), 1}, team);
  }

  TemporaryFolder folder;
  std::unique_ptr<Backbone> model;
  std::unique_ptr<QuestionAnalyser> analyser;
  const Team alone;
};

TEST_F(StageMeasure, BlocksAddUpToTheWholeStageBitForBit) {
  const auto held = stage_samples(300);
  const auto& set = *held;  // two blocks and a part
  for (const auto spectrum : {Spectrum::full, Spectrum::raw}) {
    Options options;
    options.asr.spectrum = spectrum;
    const auto all = measure_spectra({*model, plain_pass, options, 2}, set, range(0, set.size()), {});
    StageMoments whole(options);
    whole.add(all.descriptor, all.angular, all.posterior, spectrum == Spectrum::raw ? all.map : torch::Tensor(), 0);
    EXPECT_EQ(measured(set, options).state(), whole.state());
    EXPECT_FALSE(whole.result().empty());
  }
}

TEST_F(StageMeasure, MemoryDoesNotGrowWithTheStage) {
  const auto one_block = stage_samples(128), eight_blocks = stage_samples(128, 8);
  const auto &one = *one_block, &eight = *eight_blocks;
  ASSERT_EQ(eight.size(), 8 * one.size());
  const auto peak = [&](const SampleSet& set) {
    const CountedMemory counted;
    measured(set, Options());
    return g_most.load();
  };
  peak(one);  // what is made once and kept
  const int64_t least = peak(one);
  EXPECT_GT(least, 128 * 54 * 4) << "at least a block's descriptors are held";
  EXPECT_LT(peak(eight), least + 16 * 1024) << "a stage of eight equal blocks holds one of them at a time";
}

// One of two processes: remembers what it gave, and gets what both did when both have given.
class PairedTeam final : public Team {
 public:
  PairedTeam(int64_t rank, std::vector<torch::Tensor>& given) : rank_(rank), given_(given) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 2; }
  torch::Tensor gather(const torch::Tensor& rows) const override {
    given_[static_cast<size_t>(rank_)] = rows.clone();
    return given_[0].defined() && given_[1].defined() ? at::cat({given_[0], given_[1]}) : rows;
  }

 private:
  int64_t rank_;
  std::vector<torch::Tensor>& given_;
};

TEST_F(StageMeasure, TwoProcessesFindTheSameBits) {
  const auto held = stage_samples(300);
  const auto& set = *held;
  const Options options;
  std::vector<torch::Tensor> given(2);
  const PairedTeam first(0, given), second(1, given);
  measured(set, options, first);
  const auto whole = measured(set, options).state();
  EXPECT_EQ(measured(set, options, second).state(), whole);
  EXPECT_EQ(measured(set, options, first).state(), whole);
}

TEST_F(StageMeasure, StatesInPiecesAreRefused) {
  const auto held = stage_samples(20);
  const auto& set = *held;
  auto state = measured(set, Options()).state();
  StageMoments moments{Options()};
  for (const size_t cut : {size_t(1), size_t(4), size_t(100), state.size() - 1}) {
    const std::vector<int64_t> piece(state.begin(), state.begin() + static_cast<int64_t>(cut));
    EXPECT_CONTAINS(message_of([&] { moments.merge_state(piece); }), "in pieces");
  }
}

std::vector<Assignment> also_set(std::vector<Assignment> list, const std::string& key, const std::string& value) {
  list.push_back({key, value, "test"});
  return list;
}

// SHA-256 of what the method kept after a stage, by name.
std::map<std::string, std::string> kept_after(const std::string& run, int stage) {
  std::map<std::string, std::string> out;
  const auto kept = json::parse(read_text(cat(run, "/stages/0", stage, "/kept.json")));
  for (const auto& item : kept["items"]) out[item["name"]] = item["sha256"];
  return out;
}

// The method's own memory stays as after stage 1; what is measured for the analysis does not.
TEST(AnalysisMemory, GoesOnWithoutSpectrumDistillation) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  run_small(also_set(small_run(folder / "model", folder / "out", "asr"), "asr.beta", "0"));
  run_small(small_run(folder / "model", folder / "plain", "vanilla"));
  const auto run = folder / "out/asr";
  EXPECT_EQ(kept_after(run, 1).at("method.asr.mean"), kept_after(run, 3).at("method.asr.mean"));
  EXPECT_NE(kept_after(run, 1).at("method.asr.stages"), kept_after(run, 3).at("method.asr.stages"));
  const auto counted = [](const std::string& path) {
    int64_t out = 0;
    for (const auto& p : load_memory(path).prototypes) out += p.count;
    return out;
  };
  const int64_t stage1 = counted(run + "/stages/01/memory.safetensors"),
                stage3 = counted(run + "/stages/03/memory.safetensors");
  EXPECT_GE(stage1, 24);
  EXPECT_GE(stage3, stage1 + 48) << "every sample of three stages counts for a skill at least";
  EXPECT_EQ(stage3, counted(folder / "plain/vanilla/stages/03/memory.safetensors"));
  EXPECT_EQ(stage3, counted(run + "/memory.safetensors"));
}

TEST(AnalysisMemory, IsLeftOutWhereAskedAndNoMethodNeedsIt) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto base = small_run(folder / "model", folder / "with", "[vanilla,asr]");
  run_small(base);
  run_small(also_set(also_set(base, "output_dir", folder / "without"), "analysis.memory", "no"));
  for (const char* name : {"/memory.safetensors", "/stages/01/memory.safetensors", "/stages/03/memory.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / ("with/vanilla" + std::string(name))));
    EXPECT_FALSE(std::filesystem::exists(folder / ("without/vanilla" + std::string(name))));
    EXPECT_EQ(read_text(folder / ("with/asr" + std::string(name))),
              read_text(folder / ("without/asr" + std::string(name))))
        << "asr measures its stages itself";
  }
  EXPECT_EQ(read_text(folder / "with/vanilla/matrix.csv"), read_text(folder / "without/vanilla/matrix.csv"));
  const auto analysis = read_analysis_file(folder / "without/vanilla/stages/03/analysis.safetensors");
  EXPECT_FALSE(analysis.rows.empty()) << "spectra are measured all the same";
  for (const double distance : analysis.samples.distance) EXPECT_TRUE(std::isnan(distance)) << "there is no prototype";
}

// A complete run is not taken up again for a file that it never had.
TEST(AnalysisMemory, IsMissedByAResumedRunOnlyWhereItWasMeasured) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = small_run(folder / "model", folder / "out", "[vanilla,asr]");
  const auto runs = run_small(also_set(options, "analysis.memory", "no"));
  ASSERT_EQ(runs.size(), 2u);
  std::filesystem::remove(runs[1] + "/memory.safetensors");
  for (const auto& run : runs) {
    std::string problem;
    const auto stored = read_fingerprint(run + "/fingerprint.json", problem);
    ASSERT_TRUE(stored) << problem;
    const auto found = examine_run(run, *stored);
    EXPECT_EQ(found.complete, run == runs[0]) << run;
    EXPECT_EQ(found.notes.empty(), run == runs[0]) << run;
  }
}

// The ablation's later stages need no pass either.
TEST(AnalysisMemory, LaterStagesOfTheAblationAreNotMeasuredWhereNotAsked) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  run_small(
      also_set(also_set(small_run(folder / "model", folder / "out", "asr"), "asr.beta", "0"), "analysis.memory", "no"));
  EXPECT_EQ(load_memory(folder / "out/asr/memory.safetensors").stages, 1);
  EXPECT_EQ(read_text(folder / "out/asr/stages/01/memory.safetensors"),
            read_text(folder / "out/asr/memory.safetensors"));
}

}  // namespace
}  // namespace asr
