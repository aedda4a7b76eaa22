// harmonics verify: checks chains of custody and signatures, with nothing but the files.
#include <harmonics/verification/model_check.h>
#include <harmonics/verification/verification.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int verify(const VerifyCommand& command) {
  if (command.files.size() == 1 && is_model_signature(command.files.front())) {
    return verify_model(command);
  }
  const Evidence evidence = read_evidence(command.files, command.keys);
  if (evidence.chains.empty()) return verify_foreign_statements(command, evidence);
  return print_verification(command, verify_evidence(command, evidence));
}

}  // namespace harmonics::inline in_front
