// How a program ends, and how it answers a command line that it does not run.
#pragma once

#include <string>

#include <harmonics/base/format.h>

namespace harmonics::inline in_arguments {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoPlan = 3;
inline constexpr int kExitOffPlan = 4;

/// The command line was answered without running anything: --help and --version (kExitDone, for
/// standard output) or wrong usage (kExitUsage, for standard error).
struct UsageAnswer {
  int exit_code = kExitDone;
  std::string text;
};

/// The answer to wrong usage of `command`, a program or one of its subcommands.
[[nodiscard]] inline UsageAnswer wrong_usage(const std::string& program, const std::string& what,
                                             const std::string& command) {
  return {kExitUsage, format("{}: {}\ntry '{} --help'\n", program, what, command)};
}

}  // namespace harmonics::inline in_arguments
