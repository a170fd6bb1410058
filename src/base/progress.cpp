#include "base/progress.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "base/window.h"

namespace asr {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kPlainLine = std::chrono::seconds(10);
constexpr int kColumns = 80;    // of a terminal that does not say
constexpr int kPlainShare = 8;  // a plain line comes when this part of the time so far has passed since the last

}  // namespace

Progress::Progress(std::string label, int64_t total, std::FILE* stream)
    : Progress(std::move(label), total, Ends::seen, stream) {}

Progress::Progress(std::string label, int64_t total, Ends ends, std::FILE* stream)
    : label_(std::move(label)),
      total_(std::max<int64_t>(1, total)),
      stream_(stream),
      ends_(ends),
      terminal_(isatty(fileno(stream)) == 1),
      start_(Clock::now()),
      drawn_(start_) {
  if (terminal_) draw(false);
}

Progress::~Progress() {
  if (!finished_ && terminal_) std::fprintf(stream_, "\n");  // an error message comes next, on a line of its own
}

void Progress::advance(int64_t steps, const std::string& note) {
  done_ = std::min(total_, done_ + steps);
  note_ = note;
  const auto time = Clock::now();
  const Clock::duration pause =
      terminal_ ? Clock::duration(kRedraw) : std::max<Clock::duration>(kPlainLine, (time - start_) / kPlainShare);
  if (time - drawn_ >= pause) draw(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (ends_ == Ends::seen || (!terminal_ && printed_)) return draw(true);
  if (terminal_) std::fprintf(stream_, "\r\033[K");
  std::fflush(stream_);
}

std::string Progress::line(double elapsed, int columns) const {
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  std::string text = label_ + " " + std::to_string(done_) + "/" + std::to_string(total_);
  if (done_ > 0 && done_ < total_) text += ", " + human_duration(elapsed / share - elapsed) + " left";
  if (done_ >= total_) text += ", " + human_duration(elapsed);
  if (!note_.empty()) text += ", " + note_;
  if (columns <= 0) return text;
  const int room = columns - 1 - static_cast<int>(text.size()) - 8;  // "[####] 100% "
  if (room >= 10) {
    const int width = std::min(room, 30), filled = static_cast<int>(share * width);
    text = "[" + std::string(filled, '#') + std::string(width - filled, '.') + "] " +
           std::to_string(static_cast<int>(share * 100)) + "% " + text;
  }
  if (static_cast<int>(text.size()) > columns - 1) text.resize(std::max(0, columns - 1));
  return text;
}

void Progress::draw(bool last) {
  drawn_ = Clock::now();
  const double elapsed = std::chrono::duration<double>(drawn_ - start_).count();
  if (terminal_) {
    const int window = window_columns(stream_);
    std::fprintf(stream_, "\r\033[K%s%s", line(elapsed, window > 0 ? window : kColumns).c_str(), last ? "\n" : "");
  } else {
    std::fprintf(stream_, "%s\n", line(elapsed, 0).c_str());
    printed_ = true;
  }
  std::fflush(stream_);
}

}  // namespace asr
