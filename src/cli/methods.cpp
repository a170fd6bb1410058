// asr methods | backbones | streams: what there is to choose from.
#include <fmt/format.h>

#include <iostream>

#include "backbones/backbone.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/method_page.h"
#include "methods/method.h"
#include "streams/stream.h"

namespace asr {
namespace {

void print_list(const std::vector<MethodInfo>& list, const char* key, const Common& common) {
  if (common.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& entry : list) out.push_back({{"name", entry.name}, {"summary", entry.summary}});
    return print_json({{key, out}});
  }
  for (const auto& entry : list) std::cout << fmt::format("{:<14}{}\n", entry.name, entry.summary);
}

struct MethodsArguments {
  std::string name;
  bool markdown = false;
};

void print_methods(const MethodsArguments& arguments, const Common& common) {
  if (arguments.name.empty()) {
    check(!arguments.markdown, "--markdown prints the tables of one method's page; name the method");
    return print_list(method_infos(), "methods", common);
  }
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  for (const auto& part : method_parts(arguments.name)) {
    list.push_back(method_json(part));
    text += (text.empty() ? "" : "\n") + (arguments.markdown ? method_markdown(part) : method_text(part));
  }
  if (common.json) return print_json({{"methods", list}});
  std::cout << text;
}

}  // namespace

void add_methods_command(CLI::App& app, Common& common) {
  auto* methods = app.add_subcommand("methods", "the methods that 'asr run' knows; join several with +");
  const auto arguments = std::make_shared<MethodsArguments>();
  methods->add_option("name", arguments->name, "one of them, or several joined by +: its options and what it keeps");
  methods->add_flag("--markdown", arguments->markdown, "as tables of its page in docs/methods");
  methods->callback([&common, arguments] { print_methods(*arguments, common); });
  app.add_subcommand("backbones", "the backbones that can be trained")->callback([&common] {
    std::vector<MethodInfo> list;
    for (const auto& info : backbone_infos()) list.push_back({info.name, info.summary});
    print_list(list, "backbones", common);
  });
  app.add_subcommand("streams",
                     "the streams that 'asr run' knows; those without 'world' read a folder of 'asr prepare'")
      ->callback([&common] {
        std::vector<MethodInfo> list;
        for (const auto& s : stream_infos()) list.push_back({s.name, s.summary});
        print_list(list, "streams", common);
      });
}

}  // namespace asr
