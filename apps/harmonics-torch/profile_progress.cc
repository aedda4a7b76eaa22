#include "profile_progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr int kMinBarWidth = 5;
constexpr int kMaxBarWidth = 30;

}  // namespace

ProfileBar::ProfileBar(std::size_t runs, bool wanted, const Clock& clock)
    : runs_(runs),
      live_(wanted && is_terminal(TextStream::kError)),
      colour_(wants_colour(TextStream::kError)),
      clock_(clock),
      started_(clock.now()) {}

ProfileBar::~ProfileBar() {
  try {
    if (shown_) write_text(TextStream::kError, "\r\x1b[K");
  } catch (const Error&) {
    // Standard error is gone: nobody sees the bar either.
  }
}

void ProfileBar::begin_run(std::string title) {
  title_ = std::move(title);
  ++run_;
}

void ProfileBar::show(std::size_t index, std::size_t units, const std::string& name) {
  if (!live_) return;
  const double done = static_cast<double>((run_ - 1) * units + index);
  const double share = done / static_cast<double>(runs_ * units);
  const double seconds = in_seconds(clock_.now() - started_);
  std::string rest = format("  {}/{}", index, units);
  if (share > 0) rest += format("  {} left", as_duration(seconds / share * (1 - share)));
  rest += "  " + name;
  const int width = terminal_width(TextStream::kError);
  const int space = width - static_cast<int>(title_.size() + rest.size()) - 4;
  // A line as wide as the terminal would wrap and could not be drawn over.
  std::string line = (title_ + rest).substr(0, static_cast<std::size_t>(std::max(1, width - 1)));
  if (space >= kMinBarWidth) {
    line = title_ + " " + progress_bar(share, std::min(space, kMaxBarWidth), colour_) + rest;
  }
  write_text(TextStream::kError, format("\r{}\x1b[K", line));
  shown_ = true;
}

}  // namespace harmonics::inline in_torch_program
