#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace asr {

nlohmann::json version_info();  // version, libtorch, kernel, threads, cuda
std::string version_text();

}  // namespace asr
