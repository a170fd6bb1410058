// What every method owes, whatever it does: a run of it, ended after any step, by a signal or without warning, and
// resumed ends in the same bits as one that was not; it keeps what it declares and no more than it said; two processes
// do what one does. A method is in these tests by its line in methods.def.
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "io/safetensors.h"
#include "metrics/score_matrix.h"
#include "tests/methods/ended_runs.h"
#include "tests/support/process_runs.h"
#include "train/audit.h"
#include "train/run_adapter.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

// Those of the program: other tests of this folder add methods of their own later.
const std::vector<std::string>& registered_methods() {
  static const auto names = [] {
    std::vector<std::string> out;
    for (const auto& info : method_infos()) out.push_back(info.name);
    return out;
  }();
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& entry) {
  std::string out = entry.param;
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

// Two stages of two steps.
std::vector<Assignment> contract_run(const std::string& model, const std::string& out, const std::string& method) {
  auto list = small_run(model, out, method);
  for (const auto& [key, value] : Settings{{"stream.tasks", "2"},
                                           {"stream.train", "16"},
                                           {"stream.val", "4"},
                                           {"analysis.samples", "2"},
                                           {"analysis.overlays", "1"},
                                           {"er.buffer", "5"},
                                           {"vqacl.buffer", "5"},
                                           {"adapt-inf.buffer", "5"},
                                           {"bcp-mfa.buffer", "5"},
                                           {"d-mole.epochs", "2"},
                                           {"save_steps", "1"}})
    list.push_back({key, value, "test"});
  return list;
}

class EveryMethod : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TemporaryFolder;
    write_small_model(*shared_ / "model");
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static std::string model() { return *shared_ / "model"; }
  // The run that nothing disturbs, made once.
  static std::string straight(const std::string& method) {
    const auto folder = *shared_ / "straight/" + method;
    if (!fs::exists(folder))
      run_small(contract_run(model(), *shared_ / "straight", method), fs::exists(*shared_ / "straight"));
    return folder;
  }

  static TemporaryFolder* shared_;
};
TemporaryFolder* EveryMethod::shared_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Registered, EveryMethod, ::testing::ValuesIn(registered_methods()), test_name);
INSTANTIATE_TEST_SUITE_P(Combined, EveryMethod,
                         ::testing::Values("asr+ewc", "asr+er+lwf", "asr+route", "asr+keeplora", "asr+o-lora"),
                         test_name);

TEST_P(EveryMethod, EndsInTheSameBitsHoweverItIsEnded) {
  TemporaryFolder folder;
  const auto options = contract_run(model(), folder / "out", GetParam());
  EXPECT_LE(run_through_ends(options, 20), 20) << "the run did not end";
  expect_same_files(straight(GetParam()), folder / "out/" + GetParam());
}

TEST_P(EveryMethod, KeepsWhatItDeclares) {
  const auto audit = audit_run(straight(GetParam()));
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  bool statistics = true;
  MethodCosts costs;
  const auto config = resolve_run(contract_run(model(), "none", GetParam()));
  CostContext sizes(config.options);
  sizes.task_samples = {16, 16};
  sizes.picture_bytes = 3 * 32 * 32;
  sizes.layers = 2;
  sizes.width = 32;
  const auto metrics = nlohmann::json::parse(read_text(straight(GetParam()) + "/metrics.json"));
  sizes.parameters = metrics["cost"]["adapter_parameters"].get<double>();
  for (const auto& method : make_methods(GetParam(), config.method_assignments)) {
    statistics = statistics && method->keeps() == Keeps::statistics;
    costs += method->costs(sizes);
  }
  EXPECT_EQ(audit.replay_free, statistics);
  for (const double cost : {costs.device_bytes, costs.host_bytes, costs.checkpoint_bytes, costs.forward_passes,
                            costs.forward_samples, costs.backward_samples})
    EXPECT_TRUE(std::isfinite(cost) && cost >= 0) << cost;
  // Texts, tokens and prototypes are not counted; weights, bases and pictures are.
  EXPECT_LE(static_cast<double>(audit.kept_bytes()), 1.01 * costs.checkpoint_bytes + 24e3);
}

TEST_P(EveryMethod, HasAScoreForEveryTask) {
  const auto path = straight(GetParam()) + "/matrix.csv";
  const auto text = read_text(path);
  EXPECT_CONTAINS(text, "\n0,");
  EXPECT_CONTAINS(text, "\n2,");
  std::vector<std::string> warnings;
  const bool joint = trains_jointly(GetParam());
  EXPECT_EQ(joint ? 2 : parse_score_csv(text, path, warnings).stages(), 2);
}

TEST(MethodProcesses, TwoDoWhatOneDoes) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto methods = registered_methods();
  for (const char* combined : {"asr+er+lwf", "asr+o-lora"}) methods.push_back(combined);
  const auto [one, two] = run_both(folder,
                                   {{"method", "[" + join(methods, ", ") + "]"},
                                    {"stream.tasks", "2"},
                                    {"spectral.covariance_floor", "0.01"},
                                    {"d-mole.epochs", "5"}},
                                   2);
  for (const auto& method : methods) {
    // keeplora's A are eigenvectors, which turn by a rounding error over the gap between two of them: what is learnt in
    // them agrees, the factors need not.
    const bool turns = method == "keeplora";
    const bool own = holds_slots(one + "/" + method + "/adapter");
    expect_close_runs(one + "/" + method, two + "/" + method, turns || own ? 2e-3 : 1e-4, !turns && !own, turns);
  }
  const auto metrics = nlohmann::json::parse(read_text(two + "/" + methods[0] + "/metrics.json"));
  EXPECT_EQ(metrics["cost"]["processes"].get<int>(), 2);
}

TEST(MethodNames, AreWrittenInOneWay) {
  std::set<std::string> seen;
  for (const auto& info : method_infos()) {
    EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << info.name;
    EXPECT_TRUE(seen.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_EQ(method_parts(info.name), std::vector<std::string>{info.name});
  }
}

// EWC's penalty would pull a stage's own adapter to that of another stage, or find no number to compare.
TEST(MethodNames, SayWhyTwoMethodsDoNotGoTogether) {
  for (const std::string other : {"o-lora", "keeplora", "hide-llava", "route", "sefe", "branchlora", "d-mole", "pclr"})
    for (const std::string lasting : {"ewc", "lwf", "quad"})
      EXPECT_CONTAINS(message_of([&] { method_parts(lasting + "+" + other); }),
                      lasting + " holds on to adapters that are trained through all stages, and " + other +
                          " trains others in every stage");
  EXPECT_EQ(method_parts("ewc+moelora").size(), 2u);
  EXPECT_EQ(method_parts("asr+o-lora").size(), 2u);
}

TEST(MethodNames, CombineWhereTheMethodsAllowIt) {
  for (const auto& a : registered_methods())
    for (const auto& b : registered_methods()) {
      if (a == b) continue;
      const auto one = make_method(a), other = make_method(b);
      const bool lasting = !(one->needs_lasting_adapters() && other->renews_adapters()) &&
                           !(other->needs_lasting_adapters() && one->renews_adapters());
      const bool may = one->combines_with(*other) && other->combines_with(*one) && lasting;
      const auto message = message_of([&] { method_parts(a + "+" + b); });
      EXPECT_EQ(message.empty(), may) << a << "+" << b << ": " << message;
    }
}

}  // namespace
}  // namespace asr
