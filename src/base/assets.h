// Small files that come with the program (trained parsers, backbones), found wherever it runs from.
#pragma once

#include <string>

namespace asr {

// The path of an asset: in the folder that the environment variable ASR_ASSETS names; beside the executable's folder,
// in ../assets (a checkout) or ../share/asr/assets (an installation); in ./assets; in the folder that was configured:
// for a program of another project that of the installation, or of the checkout it has added. An error lists the
// places.
std::string find_asset(const std::string& name);

// An error unless `path` exists. Nothing is ever downloaded, so a name of the Hugging Face hub gets the command that
// fetches its folder.
void check_model_path(const std::string& path);

}  // namespace asr
