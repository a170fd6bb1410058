// What METHODS says that methods keep in numbers, counted by hand for a small model: a language model of two layers
// with q, k, v and o of 32 x 32, gate and up of 64 x 32 and down of 32 x 64, a projector of two maps of 32 x 32, a
// tower of one layer and width 32.
#include <set>

#include "base/text.h"
#include "tests/support/process_runs.h"

namespace asr {
namespace {

constexpr int64_t kWidth = 32, kTower = 32, kStages = 2, kRank = 8;
constexpr int64_t kInputs = 2 * (6 * 32 + 64), kOutputs = 2 * (4 * 32 + 2 * 64 + 32);  // of all seven linears
constexpr int64_t kWeights = 2 * (4 * 32 * 32 + 3 * 64 * 32), kProjector = 2 * 32 * 32;
constexpr int64_t kBetween = 2 * 32;  // inputs of the projector's maps, and their outputs

// One kind of thing that a method keeps.
struct Kept {
  std::string method;
  std::vector<std::string> beginnings;  // of the tensors' names
  std::string part;                     // of each of them
  int64_t numbers;
  int64_t bytes_each = 4;
};

// Of the run's last checkpoint.
std::pair<int64_t, int64_t> numbers_and_bytes(const std::string& run, const Kept& kept) {
  int newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints")) {
    const auto name = entry.path().filename().string();
    if (name.rfind("checkpoint-", 0) == 0) newest = std::max(newest, std::stoi(name.substr(11)));
  }
  std::pair<int64_t, int64_t> out;
  std::set<std::string> seen;  // what has changed since the second file was written stands in the first
  for (const char* file : {"state.safetensors", "kept.safetensors"}) {
    const auto tensors = read_safetensors(cat(run, "/checkpoints/checkpoint-", newest, "/", file));
    for (const auto& view : tensors.tensors)
      for (const auto& beginning : kept.beginnings) {
        if (view.name.rfind(beginning, 0) != 0 || view.name.find(kept.part) == std::string::npos) continue;
        if (!seen.insert(view.name).second) continue;
        const auto tensor = load_tensor(tensors, view.name);
        out.first += tensor.numel();
        out.second += static_cast<int64_t>(tensor.nbytes());
      }
  }
  return out;
}

// Of every weight's leading input directions those whose energies, largest first, sum up to less than three fifths.
int64_t protected_numbers(Backbone& model) {
  int64_t out = 0;
  for (const auto& site : model.all_sites()) {
    if (site.part == SitePart::vision) continue;
    const auto values = std::get<1>(at::linalg_svd(site.linear->weight.to(at::kDouble), false)).square();
    const double all = values.sum().item<double>();
    double sum = 0;
    for (int64_t i = 0; i < values.numel(); ++i) {
      sum += values[i].item<double>();
      EXPECT_GT(std::abs(sum / all - 0.6), 1e-9);
      if (sum < 0.6 * all) out += site.linear->weight.size(1);
    }
  }
  return out;
}

TEST(KeptNumbers, AreThoseCountedByHand) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const std::vector<std::string> methods = {"vqacl", "cl-moe", "bcp-mfa",  "sefe",       "d-mole",
                                            "pclr",  "o-lora", "keeplora", "hide-llava", "branchlora"};
  auto list = small_run(folder / "model", folder / "out", "[" + join(methods, ", ") + "]");
  for (const auto& [key, value] : Settings{{"stream.tasks", "2"},
                                           {"stream.train", "16"},
                                           {"stream.val", "4"},
                                           {"per_device_train_batch_size", "16"},
                                           {"analysis.samples", "2"},
                                           {"analysis.overlays", "0"},
                                           {"lora_rank", std::to_string(kRank)},
                                           {"cl-moe.sites", "all"},
                                           {"sefe.sites", "all"},
                                           {"o-lora.sites", "all"},
                                           {"keeplora.sites", "all"},
                                           {"keeplora.gradient_energy", "0"},
                                           {"branchlora.sites", "all"},
                                           {"pclr.sites", "all"},
                                           {"pclr.pool", "2"},
                                           {"d-mole.hidden", "20"},
                                           {"d-mole.epochs", "2"}})
    list.push_back({key, value, "test"});
  const auto runs = run_small(list);
  ASSERT_EQ(runs.size(), methods.size());
  const auto stream = make_stream(resolve_run(list).run.stream);
  std::set<std::string> types, objects, answers;
  for (size_t task = 0; task < 2; ++task)
    for (int64_t i = 0; i < 16; ++i) {
      const auto info = info_of(stream->sample(task, DataSplit::train, i));
      // A stream that names no question types has one a stage.
      types.insert(info.type.empty() ? cat("of stage ", task + 1) : info.type);
      objects.insert(info.category);
      answers.insert(info.answer);
    }
  EXPECT_EQ(types.size(), 2u);
  EXPECT_GT(objects.size(), 2u);
  const auto K = static_cast<int64_t>(answers.size());
  const auto classes = static_cast<int64_t>(types.size() + objects.size());
  // Twelve old ranks are the most that a stage begins with, where eight are learnt and sixteen kept.
  constexpr int64_t kMostPast = 12, kShared = 4;
  const std::vector<Kept> table = {
      {"vqacl", {"method.vqacl.types.", "method.vqacl.objects."}, ".rows", classes * kWidth},
      {"cl-moe", {"adapter.layers."}, ".lora_", kRank * (kInputs + kOutputs)},
      {"cl-moe", {"adapter.layers."}, ".router", 4 * kInputs},
      {"cl-moe", {"method.cl-moe.weights"}, "", kStages * 4, 8},
      {"bcp-mfa", {"adapter.balanced_head."}, "", (K + 2) * kWidth},
      {"sefe", {"method.sefe.marked."}, "", (kWeights + kProjector) / 8, 1},  // a bit a position, of all stages
      {"d-mole", {"method.d-mole.encode", "method.d-mole.decode"}, "", kStages * 41 * (kTower + kWidth) + kStages * 20},
      {"d-mole", {"method.d-mole.thresholds"}, "", kStages, 8},
      {"d-mole", {"adapter."}, ".lora_A", kStages * 5 * 8 * 32},  // half of ten linears
      {"pclr", {"adapter."}, ".lora_", (kMostPast + kRank + kShared) * (kInputs + kOutputs)},
      {"pclr", {"method.pclr.past_keys", "method.pclr.fresh_keys"}, "", (kMostPast + kRank) * (kTower + kWidth)},
      {"pclr", {"method.pclr.queries"}, "", kStages * (kTower + kWidth)},
      {"o-lora", {"adapter.stage-"}, ".lora_", kStages * kRank * (kInputs + kOutputs + 2 * kBetween)},
      {"keeplora", {"method.keeplora.basis."}, "", protected_numbers(*load_backbone(folder / "model"))},
      {"hide-llava", {"method.hide-llava.anchors"}, "", kStages * 2 * kWidth},  // a picture's and a text's
      {"branchlora", {"method.branchlora.image.", "method.branchlora.text."}, "", kStages * 2 * kWidth},
      // Eight branches of rank one behind one A, a router a stage.
      {"branchlora", {"adapter."}, ".lora_A", kInputs + kBetween},
      {"branchlora", {"adapter."}, ".lora_B", 8 * (kOutputs + kBetween)},
      {"branchlora", {"adapter."}, ".router", kStages * 8 * (kInputs + kBetween)}};
  for (const auto& kept : table) {
    const auto place = std::find(methods.begin(), methods.end(), kept.method) - methods.begin();
    const auto [numbers, bytes] = numbers_and_bytes(runs[static_cast<size_t>(place)], kept);
    EXPECT_EQ(numbers, kept.numbers) << kept.method << " " << kept.beginnings[0];
    EXPECT_EQ(bytes, kept.numbers * kept.bytes_each) << kept.method << " " << kept.beginnings[0];
  }
}

}  // namespace
}  // namespace asr
