// The list in methods.def as declarations and a table.
#include "base/error.h"
#include "base/text.h"
#include "methods/method.h"

namespace asr {

#define METHOD(id, name, summary) std::unique_ptr<Method> make_##id##_method();
#include "methods/methods.def"
#undef METHOD

std::vector<std::pair<std::string, std::unique_ptr<Method>>> all_methods() {
  std::vector<std::pair<std::string, std::unique_ptr<Method>>> out;
#define METHOD(id, name, summary) out.emplace_back(name, make_##id##_method());
#include "methods/methods.def"
#undef METHOD
  return out;
}

const std::vector<MethodInfo>& method_infos() {
  static const std::vector<MethodInfo> list = {
#define METHOD(id, name, summary) {name, summary},
#include "methods/methods.def"
#undef METHOD
  };
  return list;
}

std::unique_ptr<Method> make_method(const std::string& name) {
#define METHOD(id, written, summary) \
  if (name == written) return make_##id##_method();
#include "methods/methods.def"
#undef METHOD
  fail("method '", printable(name), "' is unknown");
}

namespace {

void check_combination(const std::vector<std::string>& parts, const std::string& composition) {
  std::vector<std::unique_ptr<Method>> methods;
  for (const auto& part : parts) methods.push_back(make_method(part));
  for (size_t a = 0; a < parts.size(); ++a)
    for (size_t b = 0; b < parts.size(); ++b)
      check(a == b || methods[a]->combines_with(*methods[b]), "method '", printable(composition), "': ", parts[a],
            " cannot be combined with ", parts[b]);
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
