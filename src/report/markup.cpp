#include "report/markup.h"

#include "io/png.h"

namespace asr {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t')
      out += c;
  }
  return out;
}

std::string base64(const std::string& bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string png_uri(const uint8_t* rgb, int width, int height) {
  return "data:image/png;base64," + base64(encode_png(rgb, width, height));
}

std::string shortened(const std::string& text, size_t limit) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xc0) == 0x80) continue;  // inside a character
    if (++characters > limit) return text.substr(0, i) + "…";
  }
  return text;
}

std::string cut_name(const std::string& name, size_t limit) {
  const auto cut = shortened(name, limit);
  return cut == name ? escaped(name) : "<span title=\"" + escaped(name) + "\">" + escaped(cut) + "</span>";
}

std::string missing(const std::string& sentence) {
  return "<p class=\"missing\">" + escaped(sentence) + "</p>\n";
}

}  // namespace asr
