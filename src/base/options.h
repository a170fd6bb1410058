// Options are declared once, in a function `void visit(OptionVisitor&)` of the struct that holds them.
// That one declaration serves the command line (--set key=value), YAML files, --help and the manifest
// written beside every result. An unknown key is an error that names the nearest one.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

// An enum becomes an option by listing its spellings, in the order of its values:
//   template <> struct EnumNames<Kind> { static constexpr const char* names[] = {"half", "sum"}; };
template <class Enum>
struct EnumNames;

template <class Enum>
const char* enum_name(Enum value) {
  return EnumNames<Enum>::names[static_cast<size_t>(value)];
}

// One `key = value` as written by a user; `origin` ("--set", "FILE:12") goes into error messages.
struct Assignment {
  std::string key, value, origin;
};

struct OptionInfo {
  std::string key, help, range;
  std::function<void(const std::string& text, const std::string& origin)> set;
  std::function<nlohmann::json()> get;
  nlohmann::json initial;  // the value before anything was set
};

class OptionVisitor {
 public:
  explicit OptionVisitor(std::string prefix) : prefix_(std::move(prefix)) {}

  void operator()(const char* name, int64_t& value, int64_t low, int64_t high, const char* help);
  void operator()(const char* name, double& value, double low, double high, const char* help);
  void operator()(const char* name, std::string& value, const char* help);
  void operator()(const char* name, std::vector<std::string>& value, const char* help);  // [a, b] or a,b
  void operator()(const char* name, std::vector<int64_t>& value, int64_t low, int64_t high, const char* help);
  template <class Enum>
  void operator()(const char* name, Enum& value, const char* help) {
    std::vector<std::string> names(std::begin(EnumNames<Enum>::names), std::end(EnumNames<Enum>::names));
    choice(
        name, names, [&value](size_t index) { value = static_cast<Enum>(index); },
        [&value] { return static_cast<size_t>(value); }, help);
  }

  const std::vector<OptionInfo>& options() const { return options_; }

 private:
  void choice(const char* name, const std::vector<std::string>& names, std::function<void(size_t)> set,
              std::function<size_t()> get, const char* help);
  void add(const char* name, OptionInfo info);
  std::string full(const char* name) const { return prefix_.empty() ? name : prefix_ + "." + name; }

  std::string prefix_;
  std::vector<OptionInfo> options_;
};

// The options of several structs, each under its own prefix, bound to the live structs.
class OptionTable {
 public:
  template <class Options>
  void add(const std::string& prefix, Options& options) {
    OptionVisitor visitor(prefix);
    options.visit(visitor);
    append(visitor);
  }
  void set(const Assignment& assignment);
  nlohmann::json manifest() const;  // {"spectral": {"dc": "drop", ...}, ...}
  std::string help() const;         // one line an option: key, default, range, meaning
  std::vector<std::string> keys() const;
  const std::vector<OptionInfo>& options() const { return options_; }

 private:
  void append(const OptionVisitor& visitor);
  std::vector<OptionInfo> options_;
};

// "key=value" from the command line.
Assignment parse_assignment(const std::string& text, const std::string& origin);

// A YAML document of nested maps as dotted keys, in file order; values are scalars or lists of scalars, which come out
// as
// "[a, b]". Duplicate keys, anchors that recurse and bad syntax are errors that name the line.
std::vector<Assignment> parse_yaml_options(const std::string& text, const std::string& path);

// A manifest as YAML that parse_yaml_options reads back.
std::string yaml_text(const nlohmann::json& manifest);

// A manifest read back as assignments, so that stored options can be applied again.
std::vector<Assignment> manifest_assignments(const nlohmann::json& manifest, const std::string& origin);

}  // namespace asr
