// Grounding: the share of boxes "[left,top,right,bottom]" whose intersection over union with the reference exceeds
// one half; a text without a box is wrong. `iou50` reads the four numbers however they are written; `iou50_coin` is
// CoIN's reader, which drops the brackets and then the first and last character too, so it loses digits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "metrics/metric.h"
#include "metrics/words.h"

namespace asr {
namespace {

using Box = std::array<double, 4>;
using Reader = std::optional<Box> (*)(const std::string&);

// The decimal number at `place`, which moves past it. Digits inside a word such as "x1" are no number.
std::optional<double> number_at(const std::string& text, size_t& place) {
  const auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  size_t end = place + (at(place) == '-' || at(place) == '+');
  const size_t digits = end;
  while (is_digit(at(end))) ++end;
  if (at(end) == '.' && (end > digits || is_digit(at(end + 1))))
    for (++end; is_digit(at(end));) ++end;
  if (end == digits) return std::nullopt;
  if (at(end) == 'e' || at(end) == 'E') {
    const size_t exponent = end + 1 + (at(end + 1) == '-' || at(end + 1) == '+');
    if (is_digit(at(exponent)))
      for (end = exponent; is_digit(at(end));) ++end;
  }
  const double value = std::strtod(text.substr(place, end - place).c_str(), nullptr);
  place = end;
  return value;
}

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> out;
  for (size_t place = 0; place < text.size() && out.size() <= 4;) {
    const unsigned char c = static_cast<unsigned char>(text[place]);
    if (is_word(c) && !is_digit(text[place])) {  // a name: skip all of it
      while (place < text.size() && is_word(static_cast<unsigned char>(text[place]))) ++place;
      continue;
    }
    if (const auto value = number_at(text, place))
      out.push_back(*value);
    else
      ++place;
  }
  return out;
}

std::optional<Box> as_box(const std::vector<double>& values) {
  if (values.size() != 4) return std::nullopt;
  for (double value : values)
    if (!std::isfinite(value)) return std::nullopt;
  return Box{values[0], values[1], values[2], values[3]};
}

// The first bracketed group of exactly four numbers; failing that, the text must hold exactly four.
std::optional<Box> read_box(const std::string& text) {
  size_t open = std::string::npos;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(' || text[i] == '{') open = i;
    if ((text[i] == ']' || text[i] == ')' || text[i] == '}') && open != std::string::npos) {
      if (const auto box = as_box(numbers_in(text.substr(open + 1, i - open - 1)))) return box;
      open = std::string::npos;
    }
  }
  return as_box(numbers_in(text));
}

std::vector<double> comma_numbers(const std::string& text) {
  std::vector<double> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    double value = 0;
    if (!parse_double(trim(text.substr(begin, end - begin)), value)) return {};
    out.push_back(value);
    begin = end + 1;
  }
  return out;
}

std::optional<Box> read_box_coin(const std::string& text) {
  std::string inner = text.substr(!text.empty() && text[0] == ' ');
  inner = replace_all(replace_all(inner, "[", ""), "]", "");
  return inner.size() < 2 ? std::nullopt : as_box(comma_numbers(inner.substr(1, inner.size() - 2)));
}

double overlap(const Box& a, const Box& b) {
  const double width = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const double height = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double shared = std::max(0.0, width) * std::max(0.0, height);
  const double all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared;
  return all > 0 && std::isfinite(all) ? std::clamp(shared / all, 0.0, 1.0) : 0;
}

MetricResult evaluate(const std::vector<Answered>& samples, Reader read) {
  std::vector<double> hits;
  double sum = 0, unread = 0;
  for (const auto& sample : samples) {
    const auto said = read(sample.text);
    double best = 0;
    for (const auto& reference : sample.references) {
      const auto truth = read_box(reference);
      check(truth.has_value(), "metric iou50: reference '", printable(reference), "' of sample '", printable(sample.id),
            "' is no box [left,top,right,bottom]");
      if (said) best = std::max(best, overlap(*said, *truth));
    }
    unread += !said;
    sum += best;
    hits.push_back(best > 0.5 ? 1.0 : 0.0);
  }
  auto out = mean_result("accuracy", std::move(hits));
  out.components["mean_iou"] = sum / static_cast<double>(samples.size());
  out.components["unparsable"] = unread / static_cast<double>(samples.size());
  return out;
}

}  // namespace

MetricResult evaluate_iou50(const std::vector<Answered>& samples) {
  return evaluate(samples, read_box);
}

MetricResult evaluate_iou50_coin(const std::vector<Answered>& samples) {
  return evaluate(samples, read_box_coin);
}

}  // namespace asr
