// Training data smuggled into every corner of a run's folder: the audit must see each of them.
#include "train/audit.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "tensor/tensor_io.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

// One run for all tests; each works on a copy.
class AuditTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TemporaryFolder;
    write_small_model(*shared_ / "model");
    made_ = run_small(small_run(*shared_ / "model", *shared_ / "out", "ewc"))[0];
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  void SetUp() override {
    run_ = folder_ / "ewc";
    fs::copy(made_, run_, fs::copy_options::recursive);
  }

  std::string newest() const {
    std::string best;
    int64_t most = -1;
    for (const auto& entry : fs::directory_iterator(run_ + "/checkpoints")) {
      const auto name = entry.path().filename().string();
      const int64_t step = std::stoll(name.substr(name.rfind('-') + 1));
      if (step > most) {
        most = step;
        best = name;
      }
    }
    return "checkpoints/" + best + "/state.safetensors";
  }
  std::string newest_kept() const {
    const auto state = newest();
    return state.substr(0, state.rfind('/')) + "/kept.safetensors";
  }
  // Written as the program would, checksum and all.
  void edit(const std::string& name, const std::function<void(NamedTensors&, Metadata&)>& change) const {
    NamedTensors tensors;
    Metadata metadata;
    {
      const auto file = read_safetensors(run_ + "/" + name);
      for (const auto& view : file.tensors) tensors.emplace_back(view.name, load_tensor(file, view.name).clone());
      metadata = file.metadata;
    }
    metadata.erase("sha256");
    change(tensors, metadata);
    save_tensors(run_ + "/" + name, tensors, metadata);
  }
  void edit_text(const std::string& name, const std::function<void(std::string&)>& change) const {
    auto text = read_text(run_ + "/" + name);
    change(text);
    write_text(run_ + "/" + name, text);
  }
  static torch::Tensor& at(NamedTensors& tensors, const std::string& name) {
    for (auto& [key, tensor] : tensors)
      if (key == name) return tensor;
    throw Error("no tensor " + name, 2);
  }
  static StreamSample sample(size_t task, DataSplit split, int64_t index) {
    StreamOptions options;
    options.train = 24;
    options.val = 8;
    options.image_size = 32;
    options.tasks = 3;
    return make_stream(options)->sample(task, split, index);
  }
  static torch::Tensor pixels(int64_t index) {
    const auto s = sample(1, DataSplit::train, index);
    auto out = at::empty({static_cast<int64_t>(s.pixels.size())}, at::kByte);
    std::copy(s.pixels.begin(), s.pixels.end(), out.data_ptr<uint8_t>());
    return out;
  }
  void expect_violation(const std::string& part) const {
    const auto audit = audit_run(run_);
    const bool found = std::any_of(audit.violations.begin(), audit.violations.end(), [&](const std::string& violation) {
      return violation.find(part) != std::string::npos;
    });
    std::string all;
    for (const auto& violation : audit.violations) all += violation + "\n";
    EXPECT_TRUE(found) << "no violation with '" << part << "' among:\n" << all;
  }

  static TemporaryFolder* shared_;
  static std::string made_;
  TemporaryFolder folder_;
  std::string run_;
};
TemporaryFolder* AuditTest::shared_ = nullptr;
std::string AuditTest::made_;

TEST_F(AuditTest, AHonestRunPassesAndTheRoomIsSaid) {
  const auto audit = audit_run(run_);
  EXPECT_TRUE(audit.passed()) << (audit.violations.empty() ? "" : audit.violations[0]);
  EXPECT_EQ(audit.searched, 72);
  EXPECT_EQ(audit.samples, 72);
  EXPECT_EQ(audit.kept.size(), 2u);
  EXPECT_GT(audit.files, 20);
  EXPECT_GT(audit.bytes_a_sample, 32 * 32 * 3);
  EXPECT_NEAR(audit.samples_that_fit(audit.kept_bytes()),
              static_cast<double>(audit.kept_bytes()) / audit.bytes_a_sample, 1e-9);
  const auto some = audit_run(run_, 5);
  EXPECT_EQ(some.searched, 15);
  EXPECT_EQ(some.samples, 72);
}

TEST_F(AuditTest, FilesAndFoldersThatNoRunWrites) {
  write_text(run_ + "/notes.txt", "hello");
  write_text(run_ + "/stages/02/extra.safetensors", "hello");
  fs::create_directories(run_ + "/stages/cache");
  fs::create_symlink("/etc/hostname", run_ + "/predictions/stage-09-task-01.jsonl");
  for (const char* name :
       {"notes.txt", "stages/02/extra.safetensors", "stages/cache", "predictions/stage-09-task-01.jsonl"})
    expect_violation(std::string(name) + ": is no file that a run writes");
}

TEST_F(AuditTest, TensorsThatNobodyDeclared) {
  edit(newest(), [&](NamedTensors& tensors, Metadata& metadata) {
    for (const char* name : {"analysis.extra", "optimizer.third", "method.ewc.momentum", "adapter.more"})
      tensors.emplace_back(name, at::zeros({3}));
    auto state = nlohmann::json::parse(metadata["state"]);
    state["kept"]["method.ewc.momentum"] = "statistics";
    metadata["state"] = state.dump();
    metadata["note"] = "hello";
  });
  edit(newest_kept(), [&](NamedTensors& tensors, Metadata&) {
    at(tensors, "analysis.mean") = at::zeros({900, 4}, at::kDouble);
    at(tensors, "method.ewc.fisher") = at::zeros({at(tensors, "method.ewc.anchor").numel() + 1});
    tensors.emplace_back("method.ewc.hidden", at::zeros({3}));
  });
  edit("memory.safetensors", [](NamedTensors& tensors, Metadata&) { tensors.emplace_back("extra", at::zeros({3})); });
  edit("adapter/adapter_model.safetensors", [](NamedTensors& tensors, Metadata& metadata) {
    tensors[0].second = at::zeros({500, 500});
    metadata["format"] = "hello";
  });
  for (const char* name : {"analysis.extra", "optimizer.third", "method.ewc.momentum", "adapter.more", "extra"})
    expect_violation(cat("tensor '", name, "' is undeclared"));
  expect_violation("tensor 'analysis.mean' of shape [900, 4] is larger");
  expect_violation("tensor 'method.ewc.fisher' of shape");
  expect_violation("keeps 'method.ewc.momentum' as \"statistics\", which its method does not declare");
  expect_violation("metadata 'note' is not one that a run writes");
  expect_violation("metadata 'format' is not what the run's options give");
  expect_violation("adapter/adapter_model.safetensors: tensor");
}

TEST_F(AuditTest, MembersAndSpacesOfTextFiles) {
  edit_text("metrics.json", [](std::string& text) { text.insert(text.find("\"cost\""), "\"secret\": \"hello\", "); });
  edit_text("log.jsonl", [](std::string& text) { text.insert(1, "\"secret\": 5, "); });
  edit_text("config.yaml", [](std::string& text) { text += "# hello\n"; });
  edit_text("matrix.csv", [](std::string& text) { text += "hello,1,2,3\n"; });
  edit_text("stages/01/kept.json", [](std::string& text) { text += "  \n"; });
  edit_text("adapter/adapter_config.json", [](std::string& text) { text.insert(text.find("\"r\""), "\"r\": 7, "); });
  edit(newest(), [](NamedTensors&, Metadata& metadata) {
    auto state = nlohmann::json::parse(metadata["state"]);
    state["secret"] = "hello";
    state["config"]["secret"] = "hello";
    metadata["state"] = state.dump();
  });
  expect_violation("metrics.json: member 'secret' is not one that a run writes");
  expect_violation("metrics.json: is not written as the program writes it");
  expect_violation("log.jsonl:1: member 'secret'");
  expect_violation("config.yaml: is not written as the program writes it");
  expect_violation("matrix.csv:6: cell 'hello' is no score");
  expect_violation("stages/01/kept.json: is not written as the program writes it");
  expect_violation("adapter/adapter_config.json: is not written as the program writes it");
}

TEST_F(AuditTest, TheStateOfACheckpoint) {
  edit(newest(), [](NamedTensors&, Metadata& metadata) {
    auto state = nlohmann::json::parse(metadata["state"]);
    state["secret"] = "hello";
    metadata["state"] = state.dump() + "   ";
  });
  expect_violation("state.safetensors: member 'secret'");
  expect_violation("state.safetensors: metadata 'state' is not what");
}

TEST_F(AuditTest, PicturesAsBytesNumbersFractionsAndInverted) {
  edit(newest_kept(), [&](NamedTensors& tensors, Metadata&) {
    const auto put = [&](const std::string& name, const torch::Tensor& values) {
      auto flat = at(tensors, name).flatten();
      flat.narrow(0, 0, values.numel()).copy_(values);
    };
    put("method.ewc.fisher", pixels(23).narrow(0, 0, 3 * 32 * 20).to(at::kFloat) / 255);
    put("method.ewc.anchor", 255 - pixels(5).narrow(0, 0, 3 * 32 * 20).to(at::kFloat));
  });
  expect_violation("kept.safetensors: method.ewc.fisher contains the image of world-10/color/train/23");
  expect_violation("method.ewc.anchor contains the image of world-10/color/train/5");
}

TEST_F(AuditTest, ValidationFilesHoldValidationSamples) {
  edit_text("predictions/stage-03-task-02.jsonl", [](std::string& text) {
    auto line = nlohmann::json::parse(text.substr(0, text.find('\n')));
    line["question"] = sample(1, DataSplit::train, 7).question + " hello";
    text = line.dump() + text.substr(text.find('\n'));
  });
  edit("stages/02/analysis.safetensors", [](NamedTensors& tensors, Metadata& metadata) {
    auto& images = at(tensors, "overlay.image");
    images.copy_(pixels(3).view({1, 32, 32, 3}).expand_as(images));
    auto list = nlohmann::json::parse(metadata["overlay"]);
    list[0]["question"] = "hello";
    metadata["overlay"] = list.dump();
    tensors.emplace_back("sample.more", at::zeros({3}));
  });
  expect_violation("predictions/stage-03-task-02.jsonl:1: 'question' is not the validation sample's");
  expect_violation("overlay 1: its picture is not the validation sample's");
  expect_violation("overlay 1: is not the validation sample's question");
  expect_violation("tensor 'sample.more' is undeclared");
}

}  // namespace
}  // namespace asr
