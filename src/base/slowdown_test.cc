#include <harmonics/base/slowdown.h>

#include <gtest/gtest.h>

#include <cstdlib>

#include "error_testing.h"

namespace harmonics::inline in_base {
namespace {

TEST(Slowdown, IsAFactorOrAnError) {
  ::unsetenv(kSlowdownVariable);
  EXPECT_EQ(slowdown_from_environment(), 1);
  ::setenv(kSlowdownVariable, "2.5", 1);
  EXPECT_EQ(slowdown_from_environment(), 2.5);
  for (const char* const wrong : {"0.5", "1001", "fast", "nan", "2x"}) {
    ::setenv(kSlowdownVariable, wrong, 1);
    expect_error(ErrorCode::kInvalidArgument, "is no factor from 1 to 1000",
                 [] { (void)slowdown_from_environment(); });
  }
  ::unsetenv(kSlowdownVariable);
}

}  // namespace
}  // namespace harmonics::inline in_base
