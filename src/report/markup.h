// Text into HTML and SVG. Questions, answers and names come from data: everything passes through escaped().
#pragma once

#include <cstdint>
#include <string>

namespace asr {

std::string escaped(const std::string& text);  // for element content and quoted attributes; control characters go
std::string base64(const std::string& bytes);

// An image as a data URI, so that the page needs no other file.
std::string png_uri(const uint8_t* rgb, int width, int height);

// Cut to `limit` characters (not bytes), with an ellipsis.
std::string shortened(const std::string& text, size_t limit);

// A name as HTML: escaped, cut to `limit` characters, whole on pointing at it where it was cut.
std::string cut_name(const std::string& name, size_t limit);

// One sentence in place of a figure whose data is not there.
std::string missing(const std::string& sentence);

}  // namespace asr
