// The command contract: what other programs rely on.
#include <cstring>

#include "spectral/memory.h"
#include "tensor/tensor_io.h"
#include "tests/support/program.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    const auto prototypes = random_prototypes(3, {});
    input = {{"attention", random_attention({2, 1, 2, 3, 4, 6})},
             {"functional", torch::ones({2, 3})},
             {"valid", torch::ones({2, 3}, at::kByte)},
             {"posterior", torch::tensor({{0.1, 0.2, 0.3, 0.4}, {0.7, 0.1, 0.1, 0.1}}, at::kDouble)},
             {"memory.skill", prototypes.skill},
             {"memory.mean", prototypes.mean},
             {"memory.variance", prototypes.variance},
             {"memory.angular", prototypes.angular},
             {"geo.image", torch::randn({2, 5}, at::kDouble)},
             {"geo.text", torch::randn({2, 5}, at::kDouble)},
             {"geo.image_ref", torch::randn({2, 5}, at::kDouble)},
             {"geo.text_ref", torch::randn({2, 5}, at::kDouble)}};
  }
  // Writes the input with one tensor replaced or, if undefined, left out.
  std::string write(const std::string& name = "", const torch::Tensor& tensor = {}) {
    NamedTensors list;
    for (const auto& [key, value] : input) {
      if (key != name)
        list.emplace_back(key, value);
      else if (tensor.defined())
        list.emplace_back(key, tensor);
    }
    save_tensors(folder / "in", list, {});
    return folder / "in";
  }
  std::string write_stage(const std::string& file, double shift, const torch::Tensor& posterior = {}) {
    const auto p = posterior.defined() ? posterior : torch::tensor({{0.9, 0.1}, {0.6, 0.4}, {0.1, 0.9}}, at::kDouble);
    const int64_t n = p.size(0);
    save_tensors(folder / file,
                 {{"descriptor", torch::rand({n, 54}, at::kDouble) + shift},
                  {"angular", torch::rand({n, 8}, at::kDouble) + 0.1},
                  {"posterior", p}},
                 {{"skills", R"(["count","color"])"}});
    return folder / file;
  }

  TemporaryFolder folder;
  NamedTensors input;
};

TEST_F(Commands, VersionAndHelp) {
  auto outcome = run_executable({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_CONTAINS(outcome.out, "asr 0.");
  EXPECT_EQ(run_program({"--version", "--json"}).json()["version"].get<std::string>().substr(0, 2), "0.");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"spectrum", "--help"},
                                                    {"memory", "update", "--help"},
                                                    {"drift", "--help"},
                                                    {"matrix", "--help"},
                                                    {"bench", "spectrum", "--help"}}) {
    outcome = run_program(arguments);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_CONTAINS(outcome.out, "Usage:");
  }
  EXPECT_CONTAINS(run_program({"spectrum", "--help"}).out, "spectral.tau_mah");
}

TEST_F(Commands, UsageErrorsOfferTheNearestName) {
  expect_refused({"spectrm"}, "did you mean 'spectrum'?");
  EXPECT_EQ(run_executable({"spectrm"}).status, 2);
  expect_refused({"memory", "shw", "x"}, "did you mean 'show'?");
  expect_refused({"spectrum", "in", "-o", "out", "--prest", "paper"}, "did you mean '--preset'?");
  expect_refused({"spectrum", "in"}, "--output is required");
  expect_refused({"matrix"}, "required");
  expect_refused({"--threads", "-3", "matrix", "x"}, "--threads");
  expect_refused({"--log", "loud", "matrix", "x"}, "log level");
  expect_refused({}, "a command is required");
  expect_refused({"--json"}, "a command is required");
}

TEST_F(Commands, SpectrumWritesEverythingOfTheContract) {
  const auto outcome = run_program({"spectrum", write(), "-o", folder / "out", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto result = outcome.json();
  const auto file = read_safetensors(folder / "out");
  const std::map<std::string, std::vector<int64_t>> shapes = {{"map", {2, 2, 4, 6}},
                                                              {"power", {2, 2, 4, 6}},
                                                              {"peak", {2, 2}},
                                                              {"head_descriptor", {2, 2, 27}},
                                                              {"descriptor", {2, 54}},
                                                              {"radial", {2, 8}},
                                                              {"angular", {2, 8}},
                                                              {"radius", {4, 6}},
                                                              {"angle", {4, 6}},
                                                              {"radial_bin", {4, 6}},
                                                              {"angular_bin", {4, 6}},
                                                              {"distance", {2, 3}},
                                                              {"divergence", {2, 3}},
                                                              {"weight", {2}},
                                                              {"loss_per_sample", {2}},
                                                              {"loss", {1}},
                                                              {"grad_attention", {2, 1, 2, 3, 4, 6}},
                                                              {"geo", {1}},
                                                              {"grad_geo_image", {2, 5}},
                                                              {"grad_geo_text", {2, 5}}};
  for (const auto& [name, shape] : shapes) EXPECT_EQ(file.at(name).shape, shape) << name;
  EXPECT_EQ(file.at("descriptor").dtype, Dtype::F64) << "computes in the input's type";
  EXPECT_EQ(file.at("peak").dtype, Dtype::I64);
  EXPECT_EQ(load_tensor(file, "loss").item<double>(), result["loss"].get<double>());
  EXPECT_NEAR(result["regularizer"].get<double>(),
              0.5 * result["loss"].get<double>() + 0.05 * result["geo"].get<double>(), 1e-12);
  verify_checksum(file);

  run_program({"spectrum", write("attention", input[0].second.to(at::kFloat)), "-o", folder / "single"});
  EXPECT_EQ(read_safetensors(folder / "single").at("descriptor").dtype, Dtype::F32);
  run_program({"spectrum", write("attention", input[0].second.to(at::kBFloat16)), "-o", folder / "half"});
  EXPECT_EQ(read_safetensors(folder / "half").at("grad_attention").dtype, Dtype::F32)
      << "half precision is computed in float32";
}

TEST_F(Commands, SpectrumImplementationsPresetsAndFilesOfOptions) {
  const auto loss = [&](std::vector<std::string> extra) {
    std::vector<std::string> arguments = {"spectrum", write(), "-o", folder / "out", "--json"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    const auto outcome = run_program(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.json()["loss"].get<double>();
  };
  const double sound = loss({});
  EXPECT_NEAR(loss({"--impl", "reference"}), loss({"--impl", "fused"}), 1e-12);
  const double paper = loss({"--preset", "paper", "--set", "spectral.tau_mah=54"});
  EXPECT_NE(sound, paper);
  write_text(folder / "o.yaml", "spectral:\n  preset: paper\n  tau_mah: 54\n");
  EXPECT_EQ(loss({"--config", folder / "o.yaml"}), paper);
  EXPECT_NE(loss({"--config", folder / "o.yaml", "--set", "spectral.tau_mah=20"}), paper) << "--set comes after files";
  EXPECT_EQ(loss({"--set", "asr.beta=0"}), sound);
}

TEST_F(Commands, SpectrumWithoutLossWritesDescriptorsOnly) {
  input.resize(3);
  const auto outcome = run_program({"spectrum", write(), "-o", folder / "out", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(read_safetensors(folder / "out").find("loss"), nullptr);
  EXPECT_FALSE(outcome.json().contains("loss"));
}

TEST_F(Commands, SpectrumRefusesBadInputAndKeepsTheOldOutput) {
  const auto out = folder / "out";
  write_text(out, "old");
  const auto refused = [&](const std::string& name, const torch::Tensor& tensor, const std::string& part) {
    expect_refused({"spectrum", write(name, tensor), "-o", out}, part);
    EXPECT_EQ(read_text(out), "old");
  };
  const auto attention = input[0].second;
  auto bad = attention.clone();
  bad[1][0][1][0][0][0] = NAN;
  refused("attention", bad, "sample 1, layer 0, head 1 holds NaN");
  bad = attention.clone();
  bad[0][0][0][0][0][0] = -1;
  refused("attention", bad, "negative");
  bad = attention.clone();
  bad[0][0][1].fill_(0);
  refused("attention", bad, "all zero");
  refused("attention", attention[0], "expected [B, L, heads, T, H, W]");
  refused("attention", attention.to(at::kInt), "floating-point");
  refused("attention", {}, "has no tensor 'attention'");
  refused("attention", random_attention({2, 1, 2, 3, 1, 1}), "1x1");
  refused("functional", torch::ones({2, 4}), "masks have shape [2, 4]; expected [2, 3]");
  refused("valid", torch::zeros({2, 3}), "no valid token");
  refused("valid", {}, "has no tensor 'valid'");
  refused("posterior", torch::full({2, 4}, 0.3, at::kDouble), "no distribution");
  refused("posterior", torch::full({1, 4}, 0.25, at::kDouble), "posterior has 1 rows");
  refused("posterior", torch::full({2, 2}, 0.5, at::kDouble), "holds skill 2");
  refused("posterior", {}, "has no tensor 'posterior'");
  refused("memory.mean", torch::ones({3, 7}, at::kDouble), "memory mean has shape [3, 7]");
  refused("memory.variance", torch::full({3, 54}, -1.0, at::kDouble), "negative");
  refused("memory.angular", {}, "has no tensor 'memory.angular'");
  refused("memory.skill", {}, "has no tensor 'memory.skill'");
  refused("memory.skill", torch::tensor(1), "expected [n]");
  refused("memory.skill", torch::tensor({0, 1, 1}), "two prototypes of one skill");
  refused("memory.skill", torch::tensor({-1, 0, 1}), "indices start at 0");
  refused("memory.skill", torch::tensor({0.0, 1.0, 2.0}), "must hold integers");
  refused("memory.mean", torch::full({3, 54}, 1e200, at::kDouble), "NaN or infinite");
  refused("memory.variance", torch::ones({3, 54}, at::kComplexFloat), "complex");
  refused("functional", torch::full({2, 3}, double(NAN)), "holds NaN");
  refused("attention", torch::full_like(attention, 1e308), "overflows");
  refused("geo.text", torch::zeros({2, 5}, at::kDouble), "all-zero");
  refused("geo.text", torch::ones({3, 5}, at::kDouble), "expected [2, E]");
  refused("geo.image_ref", {}, "has no tensor 'geo.image_ref'");

  const auto good = write();
  const auto refused_option = [&](const std::vector<std::string>& extra, const std::string& part) {
    std::vector<std::string> arguments = {"spectrum", good, "-o", out};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    expect_refused(arguments, part);
    EXPECT_EQ(read_text(out), "old");
  };
  refused_option({"--preset", "sond"}, "did you mean 'sound'?");
  refused_option({"--set", "spectral.dcc=keep"}, "did you mean 'spectral.dc'?");
  refused_option({"--set", "spectral.dc=maybe"}, "spectral.dc=maybe is unknown");
  refused_option({"--set", "spectral.covariance_floor=0"}, "contradicts");
  refused_option({"--set", "nonsense"}, "key=value");
  refused_option({"--set", "dc=keep"}, "did you mean 'spectral.dc'?");
  refused_option({"--set", "spectral.dc=keep", "--set", "spectral.dc=drop"}, "contradicts");
  refused_option({"--preset", "paper", "--set", "spectral.preset=sound"}, "contradicts");
  refused_option({"--config", folder / "missing.yaml"}, "No such file");
  refused_option({"--impl", "fast"}, "--impl");
  refused_option({"--device", "tpu"}, "use cpu or cuda");
  refused_option({"--memory", folder / "missing"}, "use one of them");
  refused_option({"--set", "asr.skill=oracle"}, "one-hot");
  expect_refused({"spectrum", folder / "missing", "-o", out}, "No such file");
  expect_refused({"spectrum", good, "-o", folder / "no/such/out"}, "does not exist");
  write_text(folder / "text", "this is not a safetensors file, only text");
  expect_refused({"spectrum", folder / "text", "-o", out}, "not a safetensors file");
  const auto bytes = read_text(good);
  write_text(folder / "cut", bytes.substr(0, bytes.size() - 100));
  expect_refused({"spectrum", folder / "cut", "-o", out}, "truncated");
  EXPECT_EQ(read_text(out), "old");
}

TEST_F(Commands, MemoryGrowsIsShownAndVerified) {
  const auto memory = folder / "mem";
  auto outcome = run_program({"memory", "update", memory, "-i", write_stage("s0", 0), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.json()["stage_counts"]["count"], 2);
  outcome = run_program({"memory", "update", memory, "-i", write_stage("s1", 1)});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_CONTAINS(outcome.out, "color");

  const auto shown = run_program({"memory", "show", memory, "--json"}).json();
  ASSERT_EQ(shown["prototypes"].size(), 2u);
  EXPECT_EQ(shown["prototypes"][0]["skill"], 0);
  EXPECT_EQ(shown["prototypes"][0]["name"], "count");
  EXPECT_EQ(shown["prototypes"][0]["count"], 4);
  EXPECT_EQ(shown["prototypes"][1]["variance"].size(), 54u);
  EXPECT_EQ(shown["prototypes"][1]["angular"].size(), 8u);
  // Full precision: the JSON numbers are the stored doubles.
  EXPECT_EQ(shown["prototypes"][1]["mean"].get<std::vector<double>>(), load_memory(memory).prototypes[1].mean);
  EXPECT_TRUE(run_program({"memory", "verify", memory, "--json"}).json()["ok"].get<bool>());

  auto bytes = read_text(memory);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] + 1);
  write_text(memory, bytes);
  expect_refused({"memory", "verify", memory}, "checksum");
  expect_refused({"memory", "show", memory}, "checksum");
  expect_refused({"memory", "update", memory, "-i", folder / "s1"}, "checksum");
  EXPECT_EQ(read_text(memory), bytes) << "a refused update changes nothing";
}

TEST_F(Commands, MemoryFeedsTheLoss) {
  const auto memory = folder / "mem";
  run_program({"memory", "update", memory, "-i",
               write_stage("s0", 0, torch::tensor({{0.5, 0.5, 0.0, 0.0}, {0.5, 0.5, 0.0, 0.0}}, at::kDouble))});
  input.resize(4);
  const auto outcome = run_program({"spectrum", write(), "--memory", memory, "-o", folder / "out", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.json()["prototypes"], 2);
  expect_refused({"spectrum", folder / "in", "--memory", memory, "-o", folder / "out", "--preset", "paper"},
                 "cannot be mixed");
  expect_refused(
      {"spectrum", folder / "in", "--memory", memory, "-o", folder / "out", "--set", "asr.prototypes=global"},
      "start a new memory");
}

TEST_F(Commands, MemoryOptionsAreKeptAndGuarded) {
  const auto memory = folder / "mem", stage = write_stage("s0", 0);
  ASSERT_EQ(run_program({"memory", "update", memory, "-i", stage, "--set", "spectral.alpha=0.5"}).status, 0);
  ASSERT_EQ(run_program({"memory", "update", memory, "-i", stage}).status, 0);
  EXPECT_EQ(run_program({"memory", "show", memory, "--json"}).json()["options"]["spectral"]["alpha"], 0.5);
  ASSERT_EQ(run_program({"memory", "update", memory, "-i", stage, "--set", "spectral.alpha=0.25"}).status, 0);
  EXPECT_EQ(run_program({"memory", "show", memory, "--json"}).json()["options"]["spectral"]["alpha"], 0.25);
  write_text(folder / "o.yaml", "spectral: {tau_mah: 3}\n");
  ASSERT_EQ(
      run_program({"memory", "update", memory, "-i", stage, "--config", folder / "o.yaml", "--preset", "sound"}).status,
      0);
  const auto kept = run_program({"memory", "show", memory, "--json"}).json()["options"]["spectral"];
  EXPECT_EQ(kept["alpha"], 0.25) << "what neither file nor preset names stays as stored";
  EXPECT_EQ(kept["tau_mah"], 3.0);
  expect_refused({"memory", "update", memory, "-i", stage, "--preset", "paper"}, "cannot be mixed");
  expect_refused({"memory", "update", memory, "-i", stage, "--set", "spectral.preset=paper"}, "cannot be mixed");
  expect_refused({"memory", "update", memory, "-i", stage, "--set", "asr.prototypes=global"}, "start a new memory");
}

TEST_F(Commands, MemoryRefusesBadStages) {
  const auto memory = folder / "mem";
  save_tensors(
      folder / "bad",
      {{"descriptor", torch::ones({2, 9})}, {"angular", torch::ones({2, 8})}, {"posterior", torch::full({2, 2}, 0.5)}},
      {});
  expect_refused({"memory", "update", memory, "-i", folder / "bad"}, "expected [N, 54]");
  save_tensors(
      folder / "empty",
      {{"descriptor", torch::ones({0, 54})}, {"angular", torch::ones({0, 8})}, {"posterior", torch::ones({0, 2})}}, {});
  expect_refused({"memory", "update", memory, "-i", folder / "empty"}, "at least one sample");
  save_tensors(folder / "lacking", {{"descriptor", torch::ones({2, 54})}}, {});
  expect_refused({"memory", "update", memory, "-i", folder / "lacking"}, "has no tensor 'angular'");
  EXPECT_FALSE(std::filesystem::exists(memory));
  expect_refused({"memory", "show", folder / "missing"}, "No such file");
  expect_refused({"memory", "verify", folder / "bad"}, "no prototype memory");
  expect_refused({"memory"}, "subcommand");
}

TEST_F(Commands, DriftComparesMemories) {
  const auto a = folder / "a", b = folder / "b";
  run_program({"memory", "update", a, "-i", write_stage("s0", 0)});
  run_program({"memory", "update", b, "-i", write_stage("s1", 0.1)});
  const auto outcome = run_program({"drift", a, b, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto skill = outcome.json()["skills"][0];
  for (const char* key : {"l2", "jsd", "high_frequency_loss", "w2", "memory_error", "bound"})
    EXPECT_TRUE(skill.contains(key)) << key;
  EXPECT_EQ(skill["name"], "count");
  const auto same = run_program({"drift", a, a, "--json"}).json()["skills"][0];
  EXPECT_EQ(same["l2"], 0.0);
  EXPECT_EQ(same["w2"], 0.0);
  EXPECT_EQ(same["memory_error"]["xi"], 0.0);
  EXPECT_CONTAINS(run_program({"drift", a, b}).out, "W2");
  expect_refused({"drift", a, folder / "missing"}, "No such file");
  const auto other = folder / "c";
  run_program({"memory", "update", other, "-i", folder / "s0", "--preset", "paper"});
  expect_refused({"drift", a, other}, "cannot be mixed");
  const auto disjoint = folder / "d";
  run_program(
      {"memory", "update", disjoint, "-i", write_stage("s2", 0, torch::tensor({{0.0, 0.0, 0.0, 1.0}}, at::kDouble))});
  expect_refused({"drift", a, disjoint}, "no skill in common");
}

TEST_F(Commands, DriftReadsAnalysisFiles) {
  const auto write_analysis = [&](const std::string& name, double shift) {
    save_tensors(folder / name,
                 {{"skill", torch::tensor({3})},
                  {"mean", torch::full({1, 54}, shift, at::kDouble)},
                  {"variance", torch::ones({1, 54}, at::kDouble)},
                  {"radial", torch::full({1, 8}, 0.125, at::kDouble)},
                  {"angular", torch::full({1, 8}, 0.125, at::kDouble)},
                  {"accuracy", torch::tensor({0.9 - shift}, at::kDouble)},
                  {"entropy", torch::tensor({1 + shift}, at::kDouble)},
                  {"embedding", torch::full({1, 4}, shift, at::kDouble)},
                  {"sample.skill", torch::full({50}, 3, at::kLong)},
                  {"sample.descriptor", torch::randn({50, 54}, at::kDouble) + shift}},
                 {});
    return folder / name;
  };
  const auto outcome = run_program({"drift", write_analysis("a", 0), write_analysis("b", 0.5), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto skill = outcome.json()["skills"][0];
  EXPECT_NEAR(skill["w2"].get<double>(), 0.5 * std::sqrt(54.0), 1e-12);
  EXPECT_NEAR(skill["accuracy_drop"].get<double>(), 0.5, 1e-12);
  EXPECT_NEAR(skill["entropy_increase"].get<double>(), 0.5, 1e-12);
  EXPECT_NEAR(skill["embedding_drift"].get<double>(), 1, 1e-12);
  EXPECT_GT(skill["gamma_estimate"]["a"].get<double>(), 0);
}

TEST_F(Commands, MatrixScores) {
  write_text(folder / "m.csv", "stage,count,color\n0,10,20\n1,50,\n2,40,60\n");
  const auto result = run_program({"matrix", folder / "m.csv", "--json"}).json();
  EXPECT_EQ(result["AP"], 50.0);
  EXPECT_EQ(result["AF"], 10.0);
  EXPECT_EQ(result["AF_vqacl"], 10.0);
  EXPECT_EQ(result["BWT"], -10.0);
  EXPECT_EQ(result["MFT"], 55.0);
  EXPECT_EQ(result["Avg"], 50.0);
  EXPECT_EQ(result["interference"][1][0], -10.0);
  EXPECT_TRUE(result["interference"][0][1].is_null());
  EXPECT_CONTAINS(run_program({"matrix", folder / "m.csv"}).out, "interference");
  write_text(folder / "bad.csv", "stage,count\n1,x\n");
  expect_refused({"matrix", folder / "bad.csv"}, "bad.csv:2");
  expect_refused({"matrix", folder / "missing.csv"}, "No such file");
  expect_refused({"matrix", folder.path()}, "is a folder");
}

TEST_F(Commands, WorldExportIsInOfficialForm) {
  const auto out = folder / "world";
  const auto outcome = run_program(
      {"world", "export", "--stream", "world-sc", "-o", out, "--train", "2", "--val", "1", "--size", "32", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.json()["tasks"].size(), 10u);
  const auto read = [&](const std::string& name) { return nlohmann::json::parse(read_text(out + "/" + name)); };
  const auto questions = read("questions_01_count_train.json")["questions"],
             annotations = read("annotations_01_count_train.json")["annotations"];
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_EQ(questions[0]["question_id"], annotations[0]["question_id"]);
  EXPECT_EQ(annotations[0]["answers"].size(), 10u);
  EXPECT_EQ(annotations[0]["answer_type"], "number");
  const auto conversation = read("llava_01_count_val_novel.json")[0];
  EXPECT_EQ(conversation["conversations"][0]["value"].get<std::string>().substr(0, 8), "<image>\n");
  EXPECT_EQ(read_text(out + "/" + conversation["image"].get<std::string>()).substr(1, 3), "PNG");
  expect_refused({"world", "export", "--stream", "world-1", "-o", out}, "did you mean 'world-10'?");
  expect_refused({"world", "export", "-o", out, "--train", "0", "--val", "0"}, "nothing to export");
  expect_refused({"world", "export", "-o", out, "--size", "4"}, "--size");
  EXPECT_CONTAINS(run_program({"world", "streams"}).out, "world-cit");
}

TEST_F(Commands, BenchAnswersMeasuresEveryPath) {
  const auto outcome = run_program({"bench", "answers", "--model", ASR_SOURCE_DIR "/tests/fixtures/models/llava",
                                    "--pictures", "1", "--questions", "2", "--text-tokens", "3", "--new-tokens", "2",
                                    "--slots", "2", "--turns", "1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto result = outcome.json();
  std::vector<std::string> names;
  for (const auto& side : result["sides"]) {
    names.push_back(side["name"]);
    EXPECT_GT(side["answers_a_second"].get<double>(), 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"prefill", "experts", "merged", "shared", "routed-weighed", "routed"}));
  EXPECT_GT(result["prompt_tokens"].get<double>(), 3);
  expect_refused({"bench", "answers", "--model", "no-such-folder"}, "no-such-folder");
}

TEST_F(Commands, ThreadsAreBoundedAsInOtherPrograms) {
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(run_executable({"--version", "--json"}).json()["threads"], 1);
  EXPECT_EQ(run_executable({"--version", "--json", "--threads", "2"}).json()["threads"], 2);
  unsetenv("OMP_NUM_THREADS");
}

TEST_F(Commands, BenchReportsBothSidesOfTheRatio) {
  const auto outcome = run_executable({"bench", "spectrum", "--calls", "2", "--shape", "2,1,2,3,6,6", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto row = outcome.json()["results"][0];
  EXPECT_EQ(row["threads"], 1);
  EXPECT_NEAR(row["composed_loss"].get<double>(), row["fused_loss"].get<double>(),
              1e-4 * row["composed_loss"].get<double>());
  EXPECT_GT(row["fused_ms"].get<double>(), 0);
  EXPECT_GT(row["composed_scratch_bytes"].get<int64_t>(), row["fused_scratch_bytes"].get<int64_t>());
}

TEST_F(Commands, BenchStepMeasuresAModelFolder) {
  const auto outcome =
      run_executable({"bench", "step", "--backbone", ASR_SOURCE_DIR "/tests/fixtures/models/llava", "--device", "cpu",
                      "--batch", "2", "--text-tokens", "16", "--calls", "1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto result = outcome.json();
  ASSERT_EQ(result["results"].size(), 4u);
  EXPECT_EQ(result["tokens"].get<double>(), 32);  // 16 patches and the text
  for (const auto& row : result["results"]) EXPECT_GT(row["median_ms"].get<double>(), 0) << row.dump();
  const auto unknown = run_executable({"bench", "step", "--backbone", "llava-7", "--device", "cpu"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_CONTAINS(unknown.error, "is no model folder");
}

}  // namespace
}  // namespace asr
