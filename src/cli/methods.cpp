// asr methods | backbones | streams: what there is to choose from.
#include <fmt/format.h>

#include <iostream>

#include "backbones/backbone.h"
#include "cli/command.h"
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

}  // namespace

void add_methods_command(CLI::App& app, Common& common) {
  app.add_subcommand("methods", "the methods that 'asr run' knows; join several with +")->callback([&common] {
    print_list(method_infos(), "methods", common);
  });
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
