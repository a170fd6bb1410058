// asr audit RUN: what is stored between stages, and whether that is what the method claims.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "cli/command.h"
#include "train/audit.h"

namespace asr {
namespace {

struct AuditArguments {
  std::vector<std::string> runs;
  int64_t samples = 100000000;
};

// A run's own folder, or all of those below an output folder.
std::vector<std::string> run_folders(const std::string& path) {
  std::error_code error;
  const auto is_folder = [&](const std::string& name) { return std::filesystem::is_directory(name, error); };
  check(is_folder(path), path, ": is no folder");
  if (is_folder(path + "/checkpoints")) return {path};
  std::vector<std::string> out;
  for (const auto& name : list_folder(path))
    if (is_folder(path + "/" + name + "/checkpoints")) out.push_back(path + "/" + name);
  check(!out.empty(), path, ": holds no run; expected folders with checkpoints/");
  return out;
}

// A search shows what is there in a form that was thought of; the room says how much could be there in any other.
void print_limits(const Audit& audit) {
  const int64_t stages = std::max<int64_t>(1, audit.stage), weights = audit.bytes_of("weights");
  std::cout << fmt::format(
      "searched for {} of {} training samples: pictures, questions, tokens; as bytes, whole numbers, fractions, "
      "inverted\n",
      audit.searched, audit.samples);
  std::cout << fmt::format(
      "room to hide: the method's state has {} bytes a stage, a training sample {:.0f}: {:.1f} samples a stage, {:.1f} "
      "in all; the weights, {} bytes, could hold {:.1f}\n",
      audit.kept_bytes() / stages, audit.bytes_a_sample, audit.samples_that_fit(audit.kept_bytes() / stages),
      audit.samples_that_fit(audit.kept_bytes()), weights, audit.samples_that_fit(weights));
  std::cout << "not proven by a search: that nothing in that room is compressed, encrypted or learnt by heart, and "
               "that the program that ran was this one\n";
}

void print(const Audit& audit) {
  std::cout << audit.label << " (" << audit.method << "), after stage " << audit.stage << ", declared "
            << (audit.replay_free ? "replay-free" : "to keep samples or a teacher") << "\n";
  std::vector<std::vector<std::string>> rows = {{"kept between stages", "kind", "bytes", "sha256"}};
  for (const auto& item : audit.kept)
    rows.push_back({item.name, item.kind, std::to_string(item.bytes), item.sha256.substr(0, 16)});
  std::cout << text_table(rows);
  std::cout << fmt::format("method state {} bytes; folder {} bytes in {} files, {} tensors and texts looked at\n",
                           audit.kept_bytes(), audit.bytes, audit.files, audit.kept.size() + audit.others.size());
  print_limits(audit);
  for (const auto& violation : audit.violations) std::cout << "VIOLATION: " << printable(violation, 500) << "\n";
  std::cout << (audit.passed() ? "passed: all of it is declared, and no training sample was found\n\n" : "FAILED\n\n");
}

void run(const AuditArguments& arguments, const Common& common) {
  nlohmann::json results = nlohmann::json::array();
  std::vector<std::string> failed;
  for (const auto& path : arguments.runs)
    for (const auto& folder : run_folders(path)) {
      const auto audit = audit_run(folder, arguments.samples);
      results.push_back(audit.to_json());
      if (!common.json) print(audit);
      if (!audit.passed()) failed.push_back(audit.label);
    }
  if (common.json) print_json({{"runs", results}, {"passed", failed.empty()}});
  if (!failed.empty()) std::cout.flush();
  if (!failed.empty()) fail_system("the audit failed for ", join(failed, ", "));
}

}  // namespace

void add_audit_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("audit", "list every byte a method keeps between stages, and check its claim");
  auto arguments = std::make_shared<AuditArguments>();
  command->add_option("RUN", arguments->runs, "output folders, or folders of single runs")->required();
  command->add_option("--samples", arguments->samples, "training samples a task to look for (default: all)")
      ->check(CLI::Range(1, 100000000));
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
