// Reading one object of a config.json: an absent or null key has the default that Hugging Face gives it; a wrong type
// or an impossible value is an error that names the key.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

class ModelConfig {
 public:
  // `where` goes into messages: "config.json".
  ModelConfig(const nlohmann::json& object, const std::string& where);

  ModelConfig part(const std::string& key) const;            // an object inside that must be there
  const nlohmann::json* find(const std::string& key) const;  // null where absent or null

  int64_t count(const std::string& key, int64_t otherwise) const;  // from 1 to 2^24
  double number(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& key, const std::vector<int64_t>& otherwise) const;  // one or a list
  std::array<int64_t, 2> sides(const std::string& key, int64_t otherwise) const;  // height and width; one for both

  // "config.json: 'vision_config.hidden_size'"
  std::string name_of(const std::string& key) const;

 private:
  const nlohmann::json& object_;
  std::string where_, prefix_;
};

}  // namespace asr
