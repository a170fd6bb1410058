// JSON in the metadata of a safetensors file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/safetensors.h"

namespace asr {

// What the metadata says under a key, which must be there and be JSON.
nlohmann::json metadata_json(const Safetensors& file, const std::string& key);

}  // namespace asr
