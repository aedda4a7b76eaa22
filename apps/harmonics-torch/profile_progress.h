// What a person sees while layers are measured, on standard error.
#pragma once

#include <cstddef>
#include <string>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_torch_program {

/// One line that is drawn anew on a terminal; nothing elsewhere. One thread; the clock must outlive
/// it.
class ProfileBar {
 public:
  /// `runs` profiles of one graph will follow.
  ProfileBar(std::size_t runs, bool wanted, const Clock& clock);
  ~ProfileBar();
  ProfileBar(const ProfileBar&) = delete;
  ProfileBar& operator=(const ProfileBar&) = delete;

  /// The next run begins; `title` says which.
  void begin_run(std::string title);
  /// See ProfileProgress.
  void show(std::size_t index, std::size_t units, const std::string& name);

 private:
  const std::size_t runs_;
  const bool live_;
  const bool colour_;
  const Clock& clock_;
  const Nanoseconds started_;
  std::string title_;
  std::size_t run_ = 0;  // counted from 1
  bool shown_ = false;
};

}  // namespace harmonics::inline in_torch_program
