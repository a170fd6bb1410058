// How wide the window is that text is printed into.
#pragma once

#include <cstdio>

namespace asr {

// Columns of the window that a stream is shown in; 0: it is shown in none.
int window_columns(std::FILE* stream);

// Columns of what stdout is shown in: the variable COLUMNS, else its window; 0: neither.
int output_columns();

}  // namespace asr
