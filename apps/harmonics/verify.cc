// harmonics verify: checks chains of custody, with nothing but the files.
#include <harmonics/verification/verification.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int verify(const VerifyCommand& command) {
  return print_verification(command, verify_chains(command, read_chains(command)));
}

}  // namespace harmonics::inline in_front
