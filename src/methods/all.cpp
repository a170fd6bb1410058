// The list in methods.def as declarations and a table.
#include "base/error.h"
#include "base/text.h"
#include "methods/method.h"

namespace asr {

#define METHOD(id, name, summary) std::unique_ptr<Method> make_##id##_method();
#include "methods/methods.def"
#undef METHOD

namespace {

struct KnownMethod {
  MethodInfo info;
  MethodFactory make;
};

// Those of methods.def, then what a program has added.
std::vector<KnownMethod>& known_methods() {
  static std::vector<KnownMethod> list = {
#define METHOD(id, name, summary) {{name, summary}, make_##id##_method},
#include "methods/methods.def"
#undef METHOD
  };
  return list;
}

}  // namespace

void add_method(const std::string& name, const std::string& summary, MethodFactory make) {
  for (const auto& known : known_methods()) check(known.info.name != name, "there is a method '", name, "' already");
  known_methods().push_back({{name, summary}, std::move(make)});
}

std::vector<std::pair<std::string, std::unique_ptr<Method>>> all_methods() {
  std::vector<std::pair<std::string, std::unique_ptr<Method>>> out;
  for (const auto& known : known_methods()) out.emplace_back(known.info.name, known.make());
  return out;
}

std::vector<MethodInfo> method_infos() {
  std::vector<MethodInfo> out;
  for (const auto& known : known_methods()) out.push_back(known.info);
  return out;
}

std::unique_ptr<Method> make_method(const std::string& name) {
  for (const auto& known : known_methods())
    if (known.info.name == name) return known.make();
  fail("method '", printable(name), "' is unknown");
}

namespace {

void check_combination(const std::vector<std::string>& parts, const std::string& composition) {
  std::vector<std::unique_ptr<Method>> methods;
  for (const auto& part : parts) methods.push_back(make_method(part));
  for (size_t a = 0; a < parts.size(); ++a)
    for (size_t b = 0; b < parts.size(); ++b) {
      check(a == b || methods[a]->combines_with(*methods[b]), "method '", printable(composition), "': ", parts[a],
            " cannot be combined with ", parts[b]);
      check(!methods[a]->needs_lasting_adapters() || !methods[b]->renews_adapters(), "method '", printable(composition),
            "': ", parts[a], " holds on to adapters that are trained through all stages, and ", parts[b],
            " trains others in every stage; leave one of the two out");
    }
}

}  // namespace

std::vector<std::string> method_parts(const std::string& composition) {
  std::vector<std::string> known, out;
  for (const auto& info : method_infos()) known.push_back(info.name);
  for (size_t begin = 0; begin <= composition.size();) {
    const size_t end = std::min(composition.find('+', begin), composition.size());
    const auto part = composition.substr(begin, end - begin);
    check(std::find(known.begin(), known.end(), part) != known.end(), "method '", printable(part), "' is unknown",
          did_you_mean(part, known));
    check(std::find(out.begin(), out.end(), part) == out.end(), "method '", printable(composition), "' names ", part,
          " twice");
    out.push_back(part);
    begin = end + 1;
  }
  check_combination(out, composition);
  return out;
}

bool trains_jointly(const std::string& composition) {
  return make_method(method_parts(composition)[0])->joint();  // which cannot be combined
}

}  // namespace asr
