// What a process takes, for benchmarks.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

namespace bench {

/// "VmHWM" or "VmRSS" of this process, in bytes.
inline double memory_of_this(std::string_view what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what)) return 1024 * std::strtod(line.c_str() + what.size() + 1, nullptr);
  }
  std::cerr << "there is no /proc/self/status\n";
  std::exit(2);
}

}  // namespace bench
