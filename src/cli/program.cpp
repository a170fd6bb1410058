#include "cli/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/version.h"
#include "tensor/numeric_kernels.h"
#include "tensor/runtime.h"

namespace asr {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// CLI11 reports an unknown subcommand or flag as an extra argument; the nearest name helps more.
std::string usage_hint(const CLI::App& app, const std::vector<std::string>& extras) {
  if (extras.empty()) return "";
  const CLI::App* deepest = &app;
  for (auto used = deepest->get_subcommands(); !used.empty(); used = deepest->get_subcommands()) deepest = used.back();
  std::vector<std::string> names;
  if (extras[0].rfind("-", 0) == 0) {
    for (const auto* option : deepest->get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  } else {
    for (const auto* sub : deepest->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(sub->get_name());
  }
  return did_you_mean(extras[0], names);
}

std::string command_list(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(sub->get_name());
  return join(names, ", ");
}

int usage_error(const std::string& message) {
  std::cerr << "asr: " << printable(message, 500) << " (see --help)\n";
  return 2;
}

int flushed() {
  if (!std::cout.flush()) fail_system("stdout cannot be written to");
  return 0;
}

// A file that is opened later must not become stdin, stdout or stderr: those that are closed fail as they should.
void hold_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

int run(int argc, char** argv) {
  Common common;
  std::string log_level = "info";
  int threads = 0;
  bool version = false;
  CLI::App app{"Attention-Spectrum Regularization: replay-free continual learning for multimodal LLMs", "asr"};
  app.fallthrough();
  app.formatter(help_formatter());
  app.add_flag("--json", common.json, "print one JSON object on stdout");
  app.add_option("--threads", threads, "compute threads (default: one per usable CPU)")->check(CLI::Range(0, 1024));
  app.add_option("--log", log_level, "debug | info | warn | off")->type_name("LEVEL");
  app.add_flag("--version", version, "print version, libtorch, CPU, BLAS and the kernels they chose");
#define COMMAND(name) add_##name##_command(app, common);
#include "cli/commands.def"
#undef COMMAND

  // Commands run as CLI11 callbacks, after the whole line has been parsed.
  app.parse_complete_callback([&] {
    set_log_level(log_level);
    configure_runtime(threads);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help
      app.exit(error);
      return flushed();
    }
    return usage_error(first_line(error.what()) + usage_hint(app, app.remaining(true)));
  }
  if (version && app.get_subcommands().empty()) {
    if (common.json)
      print_json(version_info());
    else
      std::cout << version_text() << "\n" << numeric_kernels_text() << "\n";
    return flushed();
  }
  if (app.get_subcommands().empty()) return usage_error("a command is required: " + command_list(app));
  return flushed();
}

}  // namespace

int program(int argc, char** argv) {
  hold_closed_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of its write
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    std::cerr << "asr: " << printable(error.what(), 2000) << "\n";
    return error.status;
  } catch (const std::bad_alloc&) {
    std::cerr << "asr: out of memory\n";
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {  // a link to itself, a folder that cannot be read
    const bool full = error.code() == std::errc::no_space_on_device || error.code() == std::errc::not_enough_memory;
    std::cerr << "asr: " << printable(error.path1().string(), 1000) << ": " << error.code().message() << "\n";
    return full ? 1 : 2;
  } catch (const std::exception& error) {
    if (std::string(error.what()).find("CUDA out of memory") != std::string::npos) {
      std::cerr << "asr: the GPU's memory is full; lower per_device_train_batch_size or per_device_eval_batch_size, or "
                   "use gradient_checkpointing; a run goes on with --resume\n";
      return 1;
    }
    std::cerr << "asr: internal error: " << printable(first_line(error.what()), 300) << "\n";
    return 1;
  }
}

}  // namespace asr
