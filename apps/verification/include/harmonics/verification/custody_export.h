// harmonics custody export, once the chain has been verified.
#pragma once

#include <vector>

#include <harmonics/custody/model_signature.h>
#include <harmonics/custody/verify.h>
#include <harmonics/options/commands.h>
#include <harmonics/verification/evidence.h>

namespace harmonics::inline in_verification {

/// Writes the statements of the chains, of which `report` is what verification found and `files`
/// hold the final weights, and gives the exit code. Signers that are not known are an Error unless
/// the command allows them.
int export_chain(const CustodyExportCommand& command, const Evidence& evidence,
                 const VerifyReport& report, std::vector<ModelFile> files);

}  // namespace harmonics::inline in_verification
