// What a person sees while rows stream, on standard error.
#pragma once

#include <cstdint>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_torch_program {

/// On a terminal one line that is drawn anew, with a bar and rows a second; elsewhere nothing. One
/// thread at a time; the clock must outlive it.
class RunProgress {
 public:
  /// `rows` in all; 0: not known. Nothing is shown unless `wanted`.
  RunProgress(std::int64_t rows, bool wanted, const Clock& clock);
  ~RunProgress();
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  void on_rows(std::int64_t count);
  /// Wipes the bar, so that other text can follow; the destructor does it too.
  void clear();

 private:
  const std::int64_t rows_;
  const bool live_;
  const bool colour_;
  const Clock& clock_;
  const Nanoseconds started_;
  Nanoseconds drawn_{};
  std::int64_t done_ = 0;
  bool shown_ = false;
};

}  // namespace harmonics::inline in_torch_program
