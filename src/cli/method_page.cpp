#include "cli/method_page.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "methods/method.h"

namespace asr {
namespace {

struct NamedSize {
  int64_t value;
  const char* name;
};

// Sizes of no run. A method makes its bounds of them by sums and small factors, so a bound says what it was made of:
// primes above every size that is a constant.
constexpr NamedSize kNamedSizes[] = {
    {1000000007, "parameters"}, {1000000009, "own parameters"}, {1000000021, "stages"},
    {1000000033, "prototypes"}, {1000000087, "descriptor"},     {1000000093, "angular bins"},
    {1000000097, "map cells"},  {1000000103, "widest site"},    {1000000123, "names of sites"},
};

StateSizes named_sizes() {
  StateSizes out;
  int64_t* const fields[] = {&out.parameters, &out.own_parameters, &out.stages,
                             &out.prototypes, &out.descriptor,     &out.angular,
                             &out.map,        &out.widest_site,    &out.site_names};
  for (size_t i = 0; i < std::size(kNamedSizes); ++i) *fields[i] = kNamedSizes[i].value;
  return out;
}

// "2 x stages", "parameters + own parameters", "1024".
std::string bound_text(int64_t bound) {
  if (bound == kAnySize) return "any";
  if (bound < kNamedSizes[0].value) return cat(bound);
  for (const auto& size : kNamedSizes)
    if (bound % size.value == 0) {
      const int64_t factor = bound / size.value;
      return factor == 1 ? size.name : cat(bound_text(factor), " x ", size.name);
    }
  for (const auto& size : kNamedSizes)
    for (const auto& other : kNamedSizes)
      if (bound == size.value + other.value) return cat(size.name, " + ", other.name);
  return "by the run's sizes";
}

std::string kept_shape_text(const StateShape& shape) {
  std::vector<std::string> sizes;
  for (const int64_t bound : shape.most) sizes.push_back(bound_text(bound));
  return join(sizes, ", ");
}

const char* keeps_text(Keeps keeps) {
  switch (keeps) {
    case Keeps::statistics:
      return "no sample and no teacher";
    case Keeps::teacher:
      return "a teacher";
    case Keeps::samples:
      return "samples";
  }
  fail("a method keeps what has no name");
}

// Those of its own, then those of its section that the analyses share.
std::vector<OptionInfo> options_of(const std::string& name, Method& method, Options& analyses) {
  OptionVisitor visitor(name);
  method.visit(visitor);
  auto out = visitor.options();
  const auto shared = analyses.table();
  for (const auto& option : shared.options())
    if (option.key.rfind(name + ".", 0) == 0) out.push_back(option);
  return out;
}

std::string default_text(const OptionInfo& option) {
  return option.initial.is_string() ? option.initial.get<std::string>() : option.initial.dump();
}

using Rows = std::vector<std::vector<std::string>>;

Rows option_rows(const std::vector<OptionInfo>& options) {
  Rows out = {{"option", "default", "range", "what"}};
  for (const auto& option : options) out.push_back({option.key, default_text(option), option.range, option.help});
  return out;
}

Rows kept_rows(const std::vector<StateShape>& shapes) {
  Rows out = {{"kept", "kind", "at most", "how long"}};
  for (const auto& shape : shapes)
    out.push_back({shape.name, name_of(shape.kind), kept_shape_text(shape),
                   shape.lasts == Lasts::run ? "run" : "within a stage"});
  return out;
}

Rows native_rows(const std::vector<Assignment>& values) {
  Rows out = {{"under preset: native", "value"}};
  for (const auto& value : values) out.push_back({value.key, value.value});
  return out;
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown_table(const Rows& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t column = 0; column < rows[i].size(); ++column) {
      const auto cell = markdown_cell(rows[i][column]);
      const bool code = i > 0 && column < 2 && !cell.empty();
      out += code ? "| `" + cell + "` " : "| " + cell + " ";
    }
    out += "|\n";
    for (size_t column = 0; i == 0 && column < rows[i].size(); ++column) out += column == 0 ? "|---|" : "---|";
    if (i == 0) out += "\n";
  }
  return out;
}

std::string summary_of(const std::string& name) {
  for (const auto& info : method_infos())
    if (info.name == name) return info.summary;
  fail("method '", printable(name), "' is unknown");
}

// Sentences that stand instead of empty tables.
std::string sections(const std::string& name, const std::function<std::string(const Rows&)>& table) {
  const auto method = make_method(name);
  Options analyses;
  const auto options = options_of(name, *method, analyses);
  const auto shapes = method->kept(named_sizes());
  std::string out = options.empty() ? "No options of its own.\n" : table(option_rows(options));
  if (const auto native = method->native(); !native.empty()) out += "\n" + table(native_rows(native));
  out += cat("\nOf data and models it keeps ", keeps_text(method->keeps()), ".",
             shapes.empty() ? " Beside adapters nothing is stored.\n" : " Stored beside adapters:\n");
  if (!shapes.empty()) out += "\n" + table(kept_rows(shapes));
  return out;
}

}  // namespace

std::string method_text(const std::string& name) {
  return cat(name, ": ", summary_of(name), "\n\n", sections(name, text_table));
}

std::string method_markdown(const std::string& name) {
  return sections(name, markdown_table);
}

nlohmann::json method_json(const std::string& name) {
  const auto method = make_method(name);
  Options analyses;
  nlohmann::json options = nlohmann::json::array(), kept = nlohmann::json::array(), native = nlohmann::json::object();
  for (const auto& value : method->native()) native[value.key] = value.value;
  for (const auto& option : options_of(name, *method, analyses))
    options.push_back(
        {{"option", option.key}, {"default", option.initial}, {"range", option.range}, {"what", option.help}});
  for (const auto& shape : method->kept(named_sizes()))
    kept.push_back({{"name", shape.name}, {"kind", name_of(shape.kind)}, {"at_most", kept_shape_text(shape)}});
  return {{"name", name},
          {"summary", summary_of(name)},
          {"keeps", keeps_text(method->keeps())},
          {"options", options},
          {"native", native},
          {"kept", kept}};
}

}  // namespace asr
