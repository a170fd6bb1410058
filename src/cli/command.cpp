#include "cli/command.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"

namespace asr {

void OptionFlags::add_to(CLI::App& command) {
  command.add_option("--preset", preset, "paper | reference | sound (default sound)")->type_name("NAME");
  command.add_option("--config", configs, "YAML file of options; may be given several times")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  command.add_option("--set", sets, "one option, after all files, e.g. --set spectral.dc=keep")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  Options defaults;
  command.footer("Options for --set and --config (default, range):\n" + defaults.table().help());
}

std::vector<Assignment> OptionFlags::assignments() const {
  std::vector<Assignment> out;
  for (const auto& path : configs)
    for (auto& assignment : parse_yaml_options(read_file(path, 1 << 20), path)) out.push_back(std::move(assignment));
  std::map<std::string, std::string> given;
  if (!preset.empty()) given["spectral.preset"] = preset;
  for (const auto& text : sets) {
    auto assignment = parse_assignment(text, "--set");
    const auto [place, added] = given.emplace(assignment.key, assignment.value);
    check(added || place->second == assignment.value, "--set ", printable(text), " contradicts ",
          printable(assignment.key), "=", printable(place->second), " on the same command line");
    out.push_back(std::move(assignment));
  }
  // The command line has the last word on the preset; one in a file is the default.
  if (!preset.empty()) out.push_back({"spectral.preset", preset, "--preset"});
  return out;
}

CLI::Validator between(double low, double high) {
  const auto range = fmt::format("{:g} to {:g}", low, high);
  const auto problem = [low, high, range](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
    return text + " is no number from " + range;
  };
  return {problem, "[" + range + "]"};
}

void check_output(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code error;
  for (const auto& input : inputs)
    check(!std::filesystem::equivalent(output, input, error), output,
          ": is what is read here; name another file for the result");
}

bool next_line(std::string& line) {
  if (std::getline(std::cin, line)) return true;
  check(!std::cin.bad() && std::ferror(stdin) == 0, "stdin cannot be read");
  return false;
}

nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

void print_json(const nlohmann::json& result) {  // Names from files may hold any bytes; JSON must stay UTF-8.
  std::cout << result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

std::string number(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> words;  // in a column, below its head
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      if (i == words.size()) words.push_back(i == 0);
      widths[i] = std::max(widths[i], row[i].size());
      if (&row != &rows[0] && !row[i].empty() && std::isalpha(static_cast<unsigned char>(row[i][0]))) words[i] = true;
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += words[i] ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace asr
