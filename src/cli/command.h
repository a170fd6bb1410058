// What the commands share: how a command is registered, its common options, and how it prints its result.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spectral/options.h"

namespace asr {

// Flags that every command understands; filled before a command runs.
struct Common {
  bool json = false;  // one JSON object on stdout instead of text
};

// Each adds its subcommand and the code that runs it. One line a command, in cli/commands.def.
#define COMMAND(name) void add_##name##_command(CLI::App& app, Common& common);
#include "cli/commands.def"
#undef COMMAND

// --preset, --config and --set of the commands that compute spectra.
struct OptionFlags {
  std::string preset;                // empty: sound
  std::vector<std::string> configs;  // YAML files, in order
  std::vector<std::string> sets;     // key=value, after the files

  void add_to(CLI::App& command);
  std::vector<Assignment> assignments() const;
  Options resolve() const { return resolve_options(preset.empty() ? "sound" : preset, assignments()); }
};

void print_json(const nlohmann::json& result);  // NaN and infinities become null
nlohmann::json finite_or_null(double value);

CLI::Validator between(double low, double high);  // CLI::Range lets NaN through
// The program never writes where it reads.
void check_output(const std::string& output, const std::vector<std::string>& inputs);
// A line of stdin; false at its end. Where stdin cannot be read, that is an error.
bool next_line(std::string& line);

// A plain table: the first column and columns of words to the left, numbers to the right.
std::string text_table(const std::vector<std::vector<std::string>>& rows);
std::string number(double value, int digits = 4);  // "-" for NaN

}  // namespace asr
