// Small files that come with the program (trained parsers, backbones), found wherever it runs from.
#pragma once

#include <string>

namespace asr {

// The path of an asset: in the folder that the environment variable ASR_ASSETS names, in ../assets beside the
// executable's folder, or in ./assets. An error lists the places.
std::string find_asset(const std::string& name);

// An error unless `path` exists. Nothing is ever downloaded, so a name of the Hugging Face hub gets the command that
// fetches its folder.
void check_model_path(const std::string& path);

}  // namespace asr
