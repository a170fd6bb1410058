// What the program is and what it computes with: its own version, libtorch, kernels, threads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace asr {

std::string program_version();
nlohmann::json version_info();  // version, libtorch, kernels, threads, cuda
std::string version_text();

}  // namespace asr
