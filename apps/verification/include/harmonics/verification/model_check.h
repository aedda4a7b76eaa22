// harmonics verify of a model's signature, or of statements by others.
#pragma once

#include <harmonics/options/commands.h>
#include <harmonics/verification/evidence.h>

namespace harmonics::inline in_verification {

/// Checks the signature in the command's only file against the model, prints who signed what, and
/// gives the exit code. A CustodyError says what does not hold.
int verify_model(const VerifyCommand& command);

/// The same for statements of which none is of a secure run of ours.
int verify_foreign_statements(const VerifyCommand& command, const Evidence& evidence);

/// Compares the command's --model with what the statements name; an Error where there are none.
void compare_stated_file(const VerifyCommand& command, const Evidence& evidence);

}  // namespace harmonics::inline in_verification
