#include "nn/model_config.h"

#include <cmath>

#include "base/error.h"

namespace asr {
namespace {

// By way of a double, so that a number beyond 64 bits cannot wrap into the range.
int64_t whole(const nlohmann::json& value, int64_t low, int64_t high, const std::string& name) {
  const double wide = value.is_number() ? value.get<double>() : NAN;
  check(wide >= static_cast<double>(low) && wide <= static_cast<double>(high) && wide == std::floor(wide), name,
        " must be a whole number from ", low, " to ", high);
  return static_cast<int64_t>(wide);
}

constexpr int64_t most = int64_t{1} << 24;

}  // namespace

ModelConfig::ModelConfig(const nlohmann::json& object, const std::string& where) : object_(object), where_(where) {
  check(object.is_object(), where, ": must be a JSON object; is this the config.json of a model?");
}

ModelConfig ModelConfig::part(const std::string& key) const {
  const auto* found = find(key);
  check(found && found->is_object(), name_of(key), " is missing or no object; is this the config.json of a model?");
  ModelConfig out(*found, where_);
  out.prefix_ = prefix_ + key + ".";
  return out;
}

const nlohmann::json* ModelConfig::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

int64_t ModelConfig::count(const std::string& key, int64_t otherwise) const {
  const auto* value = find(key);
  return value ? whole(*value, 1, most, name_of(key)) : otherwise;
}

double ModelConfig::number(const std::string& key, double otherwise) const {
  const auto* value = find(key);
  check(!value || value->is_number(), name_of(key), " must be a number");
  return value ? value->get<double>() : otherwise;
}

bool ModelConfig::flag(const std::string& key, bool otherwise) const {
  const auto* value = find(key);
  check(!value || value->is_boolean(), name_of(key), " must be true or false");
  return value ? value->get<bool>() : otherwise;
}

std::string ModelConfig::text(const std::string& key, const std::string& otherwise) const {
  const auto* value = find(key);
  check(!value || value->is_string(), name_of(key), " must be a text");
  return value ? value->get<std::string>() : otherwise;
}

std::vector<int64_t> ModelConfig::integers(const std::string& key, const std::vector<int64_t>& otherwise) const {
  const auto* value = find(key);
  if (!value) return otherwise;
  if (!value->is_array()) return {whole(*value, -most, most, name_of(key))};
  std::vector<int64_t> out;
  for (const auto& entry : *value) out.push_back(whole(entry, -most, most, name_of(key)));
  return out;
}

std::array<int64_t, 2> ModelConfig::sides(const std::string& key, int64_t otherwise) const {
  const auto* value = find(key);
  if (!value || !value->is_array()) {
    const int64_t side = count(key, otherwise);
    return {side, side};
  }
  check(value->size() == 2, name_of(key), " must be one number or two");
  return {whole((*value)[0], 1, most, name_of(key)), whole((*value)[1], 1, most, name_of(key))};
}

std::string ModelConfig::name_of(const std::string& key) const {
  return where_ + ": '" + prefix_ + key + "'";
}

}  // namespace asr
