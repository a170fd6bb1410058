#include "report/data_csv.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "io/csv.h"

namespace asr {

DataCsv::DataCsv(const std::vector<std::string>& header) : out_(join(header, ",") + "\n") {}

void DataCsv::add(const std::vector<std::string>& names, double value) {
  if (std::isfinite(value)) add(names, std::vector<double>{value});
}

void DataCsv::add(const std::vector<std::string>& names, const std::vector<double>& values) {
  std::vector<std::string> cells;
  for (const auto& name : names) cells.push_back(csv_safe_field(name));
  for (const double value : values) cells.push_back(std::isfinite(value) ? fmt::format("{:.6g}", value) : "");
  out_ += join(cells, ",") + "\n";
  ++rows_;
}

}  // namespace asr
