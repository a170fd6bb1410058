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

struct Arguments {
  std::vector<std::string> runs;
  int64_t samples = 200;
};

// A run's own folder, or all of those below an output folder.
std::vector<std::string> run_folders(const std::string& path) {
  check(std::filesystem::is_directory(path), path, ": is no folder");
  if (std::filesystem::is_directory(path + "/checkpoints")) return {path};
  std::vector<std::string> out;
  for (const auto& name : list_folder(path))
    if (std::filesystem::is_directory(path + "/" + name + "/checkpoints")) out.push_back(path + "/" + name);
  check(!out.empty(), path, ": holds no run; expected folders with checkpoints/");
  return out;
}

void print(const Audit& audit) {
  std::cout << audit.label << " (" << audit.method << "), after stage " << audit.stage << ", declared "
            << (audit.replay_free ? "replay-free" : "to keep samples or a teacher") << "\n";
  std::vector<std::vector<std::string>> rows = {{"kept between stages", "kind", "bytes", "sha256"}};
  int64_t weights = 0, files = 0;
  for (const auto& item : audit.kept)
    rows.push_back({item.name, item.kind, std::to_string(item.bytes), item.sha256.substr(0, 16)});
  for (const auto& item : audit.adapter) weights += item.bytes;
  for (const auto& item : audit.analysis) files += item.bytes;
  rows.push_back(
      {fmt::format("the adapter, {} tensors", audit.adapter.size()), "weights", std::to_string(weights), ""});
  std::cout << text_table(rows);
  std::cout << fmt::format(
      "method state {} bytes; analysis {} bytes in {} files, read by no method; searched for {} training samples\n",
      audit.kept_bytes(), files, audit.analysis.size(), audit.searched);
  for (const auto& violation : audit.violations) std::cout << "VIOLATION: " << violation << "\n";
  std::cout << (audit.passed() ? "passed\n\n" : "FAILED\n\n");
}

void run(const Arguments& arguments, const Common& common) {
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
  auto arguments = std::make_shared<Arguments>();
  command->add_option("RUN", arguments->runs, "output folders, or folders of single runs")->required();
  command->add_option("--samples", arguments->samples, "training samples a task to look for in what is kept")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000000));
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
