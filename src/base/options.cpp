#include "base/options.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

std::string number_text(double value) {
  nlohmann::json out = value;
  return out.dump();
}

// "[a, b]" or "a,b" as its parts; an empty list is "" or "[]".
std::vector<std::string> list_parts(const std::string& text, const std::string& key, const std::string& origin) {
  std::string inner = trimmed(text);
  if (!inner.empty() && inner.front() == '[') {
    check(inner.back() == ']', origin, ": ", key, "=", printable(text), " begins a list and does not end it");
    inner = trimmed(inner.substr(1, inner.size() - 2));
  }
  std::vector<std::string> out;
  if (inner.empty()) return out;
  for (size_t begin = 0; begin <= inner.size();) {
    const size_t end = std::min(inner.find(',', begin), inner.size());
    out.push_back(trimmed(inner.substr(begin, end - begin)));
    check(!out.back().empty(), origin, ": ", key, "=", printable(text), " has an empty entry");
    begin = end + 1;
  }
  return out;
}

}  // namespace

void OptionVisitor::add(const char* name, OptionInfo info) {
  info.key = full(name);
  info.initial = info.get();
  options_.push_back(std::move(info));
}

void OptionVisitor::operator()(const char* name, int64_t& value, int64_t low, int64_t high, const char* help) {
  OptionInfo info;
  const std::string key = full(name);
  info.help = help;
  info.range = cat(low, "..", high);
  info.set = [&value, low, high, key](const std::string& text, const std::string& origin) {
    int64_t parsed = 0;
    check(parse_int(text, parsed) && parsed >= low && parsed <= high, origin, ": ", key, "=", printable(text),
          " is not a whole number from ", low, " to ", high);
    value = parsed;
  };
  info.get = [&value] { return nlohmann::json(value); };
  add(name, std::move(info));
}

void OptionVisitor::operator()(const char* name, double& value, double low, double high, const char* help) {
  OptionInfo info;
  const std::string key = full(name);
  info.help = help;
  info.range = number_text(low) + ".." + number_text(high);
  info.set = [&value, low, high, key](const std::string& text, const std::string& origin) {
    double parsed = 0;
    check(parse_double(text, parsed) && parsed >= low && parsed <= high, origin, ": ", key, "=", printable(text),
          " is not a number from ", low, " to ", high);
    value = parsed;
  };
  info.get = [&value] { return nlohmann::json(value); };
  add(name, std::move(info));
}

void OptionVisitor::operator()(const char* name, std::string& value, const char* help) {
  OptionInfo info;
  info.help = help;
  info.range = "text";
  info.set = [&value](const std::string& text, const std::string&) { value = text; };
  info.get = [&value] { return nlohmann::json(value); };
  add(name, std::move(info));
}

void OptionVisitor::operator()(const char* name, std::vector<std::string>& value, const char* help) {
  OptionInfo info;
  const std::string key = full(name);
  info.help = help;
  info.range = "list";
  info.set = [&value, key](const std::string& text, const std::string& origin) {
    value = list_parts(text, key, origin);
  };
  info.get = [&value] { return nlohmann::json(value); };
  add(name, std::move(info));
}

void OptionVisitor::operator()(const char* name, std::vector<int64_t>& value, int64_t low, int64_t high,
                               const char* help) {
  OptionInfo info;
  const std::string key = full(name);
  info.help = help;
  info.range = cat("list of ", low, "..", high);
  info.set = [&value, low, high, key](const std::string& text, const std::string& origin) {
    std::vector<int64_t> parsed;
    for (const auto& part : list_parts(text, key, origin)) {
      int64_t number = 0;
      check(parse_int(part, number) && number >= low && number <= high, origin, ": ", key, ": ", printable(part),
            " is not a whole number from ", low, " to ", high);
      parsed.push_back(number);
    }
    value = std::move(parsed);
  };
  info.get = [&value] { return nlohmann::json(value); };
  add(name, std::move(info));
}

void OptionVisitor::choice(const char* name, const std::vector<std::string>& names, std::function<void(size_t)> set,
                           std::function<size_t()> get, const char* help) {
  OptionInfo info;
  const std::string key = full(name);
  info.help = help;
  info.range = join(names, "|");
  info.set = [names, set = std::move(set), key](const std::string& text, const std::string& origin) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == text) return set(i);
    fail(origin, ": ", key, "=", printable(text), " is unknown", did_you_mean(text, names));
  };
  info.get = [names, get = std::move(get)] { return nlohmann::json(names[get()]); };
  add(name, std::move(info));
}

void OptionTable::append(const OptionVisitor& visitor) {
  options_.insert(options_.end(), visitor.options().begin(), visitor.options().end());
}

std::vector<std::string> OptionTable::keys() const {
  std::vector<std::string> out;
  for (const auto& option : options_) out.push_back(option.key);
  return out;
}

void OptionTable::set(const Assignment& assignment) {
  for (const auto& option : options_)
    if (option.key == assignment.key) return option.set(assignment.value, assignment.origin);
  for (const auto& option : options_)  // the section was left out
    check(option.key.size() <= assignment.key.size() ||
              option.key.compare(option.key.rfind('.') + 1, std::string::npos, assignment.key) != 0,
          assignment.origin, ": option '", printable(assignment.key), "' is unknown; did you mean '", option.key, "'?");
  fail(assignment.origin, ": option '", printable(assignment.key), "' is unknown",
       did_you_mean(assignment.key, keys()));
}

nlohmann::json OptionTable::manifest() const {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& option : options_) {
    nlohmann::json* place = &out;
    size_t begin = 0;
    for (size_t dot; (dot = option.key.find('.', begin)) != std::string::npos; begin = dot + 1)
      place = &(*place)[option.key.substr(begin, dot - begin)];
    (*place)[option.key.substr(begin)] = option.get();
  }
  return out;
}

std::string OptionTable::help() const {
  size_t width = 0;
  for (const auto& option : options_) width = std::max(width, option.key.size());
  std::string out;
  for (const auto& option : options_) {
    const std::string initial = option.initial.is_string() ? option.initial.get<std::string>() : option.initial.dump();
    out += "  " + option.key + std::string(width - option.key.size() + 2, ' ') + initial + "  (" + option.range +
           ")\n" + std::string(width + 4, ' ') + option.help + "\n";
  }
  return out;
}

Assignment parse_assignment(const std::string& text, const std::string& origin) {
  const size_t equals = text.find('=');
  check(equals != std::string::npos && equals > 0, origin, ": '", printable(text), "' is not of the form key=value");
  return {text.substr(0, equals), text.substr(equals + 1), origin};
}

namespace {

struct Flattened {
  std::vector<Assignment> list;
  std::set<std::string> keys;
  int nodes = 0;
};

// Depth and visited nodes are bounded because anchors can make a small file unfold for ever.
void flatten(const YAML::Node& node, const std::string& prefix, const std::string& path, int depth, Flattened& out) {
  const std::string origin = cat(path, ":", node.Mark().line + 1);
  check(depth < 16 && ++out.nodes < 10000, origin, ": nested too deeply or too large for an option file");
  if (node.IsMap()) {
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string place = cat(path, ":", entry.first.Mark().line + 1);
      check(entry.first.IsScalar(), place, ": a key must be a plain word");
      const std::string key = entry.first.Scalar();
      check(seen.insert(key).second, place, ": key '", printable(key), "' stands twice");
      flatten(entry.second, prefix.empty() ? key : prefix + "." + key, path, depth + 1, out);
    }
    return;
  }
  check(!prefix.empty(), origin, ": expected 'key: value' lines");
  check(out.keys.insert(prefix).second, origin, ": option '", printable(prefix), "' stands twice");
  if (node.IsSequence()) {
    std::string list;
    for (const auto& entry : node) {
      check(entry.IsScalar() && ++out.nodes < 10000, origin, ": '", printable(prefix),
            "' needs a plain value or a list of plain values");
      check(entry.Scalar().find_first_of(",[]") == std::string::npos, origin, ": '", printable(prefix),
            "' holds a value with a comma or bracket");
      list += (list.empty() ? "" : ", ") + entry.Scalar();
    }
    out.list.push_back({prefix, "[" + list + "]", origin});
    return;
  }
  check(node.IsScalar(), origin, ": '", printable(prefix), "' needs a plain value");
  out.list.push_back({prefix, node.Scalar(), origin});
}

}  // namespace

// YAML::Load reads the first document and drops the rest, and LoadAll never ends on some inputs (","), so a second
// document is looked for by hand: a line "---" after content, or content after a line "...". Returns whether there is
// any content at all.
bool has_content(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  bool content = false, ended = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto is_marker = [&line](const char* dashes) {
      return line.compare(0, 3, dashes) == 0 && (line.size() == 3 || line[3] == ' ' || line[3] == '\r');
    };
    const bool marker = is_marker("---");
    const size_t first = line.find_first_not_of(" \t\r", marker || is_marker("...") ? 3 : 0);
    const bool here = first != std::string::npos && line[first] != '#' && line[first] != '%';
    check(!(marker && content) && !(here && ended), path, ":", number, ": a second YAML document; expected one");
    ended = ended || is_marker("...");
    content = content || here;
  }
  return content;
}

std::vector<Assignment> parse_yaml_options(const std::string& text, const std::string& path) {
  Flattened out;
  if (!has_content(text, path)) return {};
  try {
    flatten(YAML::Load(text), "", path, 0, out);
  } catch (const YAML::Exception& error) {
    fail(path, ":", error.mark.line + 1, ": not valid YAML: ", printable(error.msg));
  }
  return out.list;
}

namespace {

std::string yaml_scalar(const nlohmann::json& value) {
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  const bool plain =
      !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+") ==
                           std::string::npos;
  return plain ? text : value.dump();
}

void emit_yaml(const nlohmann::json& node, int depth, std::string& out) {
  for (const auto& [key, value] : node.items()) {
    out += std::string(static_cast<size_t>(depth) * 2, ' ') + key + ":";
    if (value.is_object()) {
      out += "\n";
      emit_yaml(value, depth + 1, out);
    } else if (value.is_array()) {
      std::string list;
      for (const auto& entry : value) list += (list.empty() ? "" : ", ") + yaml_scalar(entry);
      out += " [" + list + "]\n";
    } else {
      out += " " + yaml_scalar(value) + "\n";
    }
  }
}

}  // namespace

std::string yaml_text(const nlohmann::json& manifest) {
  std::string out;
  emit_yaml(manifest, 0, out);
  return out;
}

std::vector<Assignment> manifest_assignments(const nlohmann::json& manifest, const std::string& origin) {
  std::vector<Assignment> out;
  check(manifest.is_object(), origin, ": stored options are not an object");
  for (const auto& [section, values] : manifest.items()) {
    check(values.is_object(), origin, ": stored options '", printable(section), "' are not an object");
    for (const auto& [name, value] : values.items())
      out.push_back({section + "." + name, value.is_string() ? value.get<std::string>() : value.dump(), origin});
  }
  return out;
}

}  // namespace asr
