// --help within the window: lines that are too long go on below, where their description began.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace asr {

// Each line of at most `columns`, broken at spaces.
std::string help_within(const std::string& text, size_t columns);

std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace asr
