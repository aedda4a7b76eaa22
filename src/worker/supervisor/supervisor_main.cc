// Started by the worker with a socket and a lock; see src/worker/supervisor/supervise.h. Small on
// purpose: every task costs one fork of this program.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <harmonics/base/number_text.h>

#include "supervise.h"

int main(int argc, char** argv) {
  const int socket = argc == 3 ? harmonics::number_from<int>(argv[1]).value_or(-1) : -1;
  const int lock = argc == 3 ? harmonics::number_from<int>(argv[2]).value_or(-1) : -1;
  if (socket < 0 || lock < 0) {
    std::fputs("harmonics-supervisor is started by 'harmonics worker', not by hand\n", stderr);
    return 2;
  }
  // Nothing else that the worker had open may live on in a task.
  ::close_range(static_cast<unsigned>(std::max(socket, lock)) + 1, ~0u, 0);
  return harmonics::launch_supervisors({socket, lock});
}
