// Single items of what a method keeps, read and set by their names.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "methods/method.h"

namespace asr {

class OneItem final : public StateVisitor {
 public:
  explicit OneItem(std::string wanted) : wanted_(std::move(wanted)) {}
  void tensor(const std::string& name, StateKind, torch::Tensor& value) override {
    if (name != wanted_) return;
    if (put.defined())
      value = put.clone();
    else
      found = value.defined() ? value.clone() : value;
    known = true;
  }
  void text(const std::string& name, StateKind, std::string& value) override {
    if (name != wanted_) return;
    if (put_words)
      value = *put_words;
    else
      words = value;
    known = true;
  }
  torch::Tensor found, put;
  std::string words;
  std::optional<std::string> put_words;
  bool known = false;

 private:
  std::string wanted_;
};

inline torch::Tensor held_tensor(Method& method, const std::string& name) {
  OneItem item(name);
  method.state(item);
  EXPECT_TRUE(item.known) << name;
  return item.found;
}

inline void put_tensor(Method& method, const std::string& name, const torch::Tensor& value) {
  OneItem item(name);
  item.put = value;
  method.state(item);
  EXPECT_TRUE(item.known) << name;
}

inline std::string held_text(Method& method, const std::string& name) {
  OneItem item(name);
  method.state(item);
  EXPECT_TRUE(item.known) << name;
  return item.words;
}

inline void put_text(Method& method, const std::string& name, const std::string& value) {
  OneItem item(name);
  item.put_words = value;
  method.state(item);
}

}  // namespace asr
