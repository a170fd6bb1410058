// The numbers behind a figure, as CSV: names first, then one number. Cells without a number have no row.
#pragma once

#include <string>
#include <vector>

namespace asr {

class DataCsv {
 public:
  explicit DataCsv(const std::vector<std::string>& header);
  void add(const std::vector<std::string>& names, double value);  // nothing where the value is none
  void add(const std::vector<std::string>& names, const std::vector<double>& values);  // empty cells where one is none
  std::string text() const { return rows_ ? out_ : ""; }

 private:
  std::string out_;
  size_t rows_ = 0;
};

}  // namespace asr
