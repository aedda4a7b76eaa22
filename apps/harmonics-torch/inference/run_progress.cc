#include "run_progress.h"

#include <algorithm>
#include <chrono>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::chrono::milliseconds kRunRedraw(100);
constexpr int kLeastBar = 5;
constexpr int kWidestBar = 30;

}  // namespace

RunProgress::RunProgress(std::int64_t rows, bool wanted, const Clock& clock)
    : rows_(rows),
      live_(wanted && is_terminal(TextStream::kError)),
      colour_(wants_colour(TextStream::kError)),
      clock_(clock),
      started_(clock.now()) {}

RunProgress::~RunProgress() {
  try {
    clear();
  } catch (const Error&) {
    // Standard error is gone: nobody sees the bar either.
  }
}

void RunProgress::on_rows(std::int64_t count) {
  done_ += count;
  if (!live_ || (shown_ && clock_.now() - drawn_ < kRunRedraw)) return;
  drawn_ = clock_.now();
  shown_ = true;
  const double seconds = std::max(1e-9, in_seconds(clock_.now() - started_));
  const auto done = static_cast<double>(done_);
  const auto all = static_cast<double>(std::max(rows_, done_));
  const std::string rest =
      format("  {}/{} rows  {:>6} rows/s  {:>5} left", with_thousands(done_), with_thousands(rows_),
             as_rate(done / seconds), as_duration(seconds / done * (all - done)));
  // A line as wide as the terminal would wrap and could not be drawn over.
  const int width = terminal_width(TextStream::kError);
  const int space = width - static_cast<int>(rest.size()) - 3;
  const std::string line =
      space < kLeastBar ? rest.substr(0, static_cast<std::size_t>(width - 1))
                        : progress_bar(done / all, std::min(space, kWidestBar), colour_) + rest;
  write_text(TextStream::kError, format("\r{}\x1b[K", line));
}

void RunProgress::clear() {
  if (shown_) write_text(TextStream::kError, "\r\x1b[K");
  shown_ = false;
}

}  // namespace harmonics::inline in_torch_program
