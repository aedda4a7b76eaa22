// For tests: what a piece of work breaks.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <harmonics/base/check.h>
#include <harmonics/base/log.h>

#include "error_testing.h"

namespace harmonics::inline in_base {

/// While it lives, a broken check throws, as it does for users, and its line is kept from standard
/// error.
class BugsThrow {
 public:
  BugsThrow() : before_(set_abort_on_bugs(false)) {}
  ~BugsThrow() { set_abort_on_bugs(before_); }
  BugsThrow(const BugsThrow&) = delete;
  BugsThrow& operator=(const BugsThrow&) = delete;

 private:
  bool before_;
  LogCapture captured_;
};

/// Expects `work` to break a check whose message holds `text`.
template <typename Work>
void expect_broken_check(const std::string& text, Work&& work) {
  const BugsThrow throwing;
  expect_error(ErrorCode::kInternal, text, work);
}

}  // namespace harmonics::inline in_base
