// Started by the worker with a socket and a lock; see src/worker/supervise.h. Small on purpose:
// every task costs one fork of this program.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "supervise.h"

namespace {

std::optional<int> descriptor_from(const char* text) {
  int value = -1;
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, value);
  if (read.ec != std::errc() || read.ptr != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const auto socket = argc == 3 ? descriptor_from(argv[1]) : std::nullopt;
  const auto lock = argc == 3 ? descriptor_from(argv[2]) : std::nullopt;
  if (!socket || !lock) {
    std::fputs("harmonics-supervisor is started by 'harmonics worker', not by hand\n", stderr);
    return 2;
  }
  // Nothing else that the worker had open may live on in a task.
  ::close_range(static_cast<unsigned>(std::max(*socket, *lock)) + 1, ~0u, 0);
  return harmonics::launch_supervisors({*socket, *lock});
}
