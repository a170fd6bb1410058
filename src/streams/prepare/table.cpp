// Counts of a prepared stream beside the published ones.
#include <cstdlib>

#include "base/error.h"
#include "streams/prepare/preparation.h"

namespace asr {
namespace {

using nlohmann::json;

struct Counts {
  int64_t train = 0, val = 0, tune = 0, novel = 0;
};

Counts counts_of(const json& task) {
  const auto rows = [&](const char* split) {
    return task["files"].contains(split) ? task["files"][split]["rows"].get<int64_t>() : 0;
  };
  return {rows("train"), rows("val"), rows("tune"), rows("novel")};
}

Published published_of(const json& entry) {
  const auto& p = entry["published"];
  return {p["train"].get<int64_t>(), p["val"].get<int64_t>(), p["tune"].get<int64_t>()};
}

// What tuning and novel composition take from val is part of the published val, unless tuning has a count of its own.
int64_t difference(const Counts& counts, const Published& published) {
  int64_t out = 0;
  if (published.train >= 0) out += std::abs(counts.train - published.train);
  const int64_t val = counts.val + counts.novel + (published.tune < 0 ? counts.tune : 0);
  if (published.val >= 0) out += std::abs(val - published.val);
  if (published.tune >= 0) out += std::abs(counts.tune - published.tune);
  return out;
}

bool any(const Published& p) {
  return p.train >= 0 || p.val >= 0 || p.tune >= 0;
}

std::vector<std::string> row_of(const std::string& name, const Counts& counts, const Published& published) {
  const auto number = [](int64_t n) { return n < 0 ? std::string("-") : std::to_string(n); };
  const auto shown = cat(number(published.train), " / ", number(published.val), " / ", number(published.tune));
  const auto off = difference(counts, published);
  return {name,
          number(counts.train),
          number(counts.val),
          number(counts.tune),
          number(counts.novel),
          any(published) ? shown : "-",
          !any(published) ? "-"
          : off == 0      ? "equal"
                          : cat("differs by ", off)};
}

}  // namespace

std::vector<std::vector<std::string>> prepared_table(const json& index) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "train", "val", "tune", "novel", "published train / val / tune", "verdict"}};
  Counts total;
  for (const auto& task : index["tasks"]) {
    const auto counts = counts_of(task);
    rows.push_back(row_of(task["name"].get<std::string>(), counts, published_of(task)));
    total.train += counts.train;
    total.val += counts.val;
    total.tune += counts.tune;
    total.novel += counts.novel;
  }
  rows.push_back(row_of("total", total, published_of(index)));
  return rows;
}

bool counts_agree(const json& index) {
  for (const auto& row : prepared_table(index))
    if (row.back().compare(0, 7, "differs") == 0) return false;
  return true;
}

}  // namespace asr
