#include <harmonics/custody/breach.h>

#include <string>

namespace harmonics::inline in_custody {

std::string_view breach_name(Breach breach) {
  switch (breach) {
    case Breach::kMalformed: return "malformed chain";
    case Breach::kAltered: return "altered record";
    case Breach::kFlippedTensor: return "altered tensor";
    case Breach::kReplay: return "replay";
    case Breach::kReorder: return "out of order";
    case Breach::kDrop: return "missing link";
    case Breach::kSwappedBoundary: return "swapped boundary";
    case Breach::kSubstitutedKey: return "substituted key";
    case Breach::kResigned: return "re-signed chain";
    case Breach::kUnknownSigner: return "signers unknown";
    case Breach::kFork: return "fork";
    case Breach::kRollback: return "rollback";
    case Breach::kTruncated: return "truncated chain";
    case Breach::kOtherRun: return "another run";
    case Breach::kWrongInput: return "wrong input";
    case Breach::kWrongWeights: return "wrong weights";
    case Breach::kWrongProof: return "wrong proof";
    case Breach::kMalformedStatement: return "malformed statement";
    case Breach::kAlteredStatement: return "altered statement";
    case Breach::kWrongResult: return "wrong result";
    case Breach::kAlteredModel: return "altered model";
  }
  return "unknown breach";
}

CustodyError::CustodyError(Breach breach, const std::string& message)
    : Error(ErrorCode::kDataLoss, format("custody: {}: {}", breach_name(breach), message)),
      breach_(breach) {}

}  // namespace harmonics::inline in_custody
