// How a statement of a stage is written (private to custody): by who exports and by who checks.
#pragma once

#include <string>

#include <harmonics/custody/provenance.h>

namespace harmonics::inline in_custody {

inline constexpr std::string_view kWeightsDigest = "harmonicsWeightsRoot";
inline constexpr std::string_view kDataDigest = "harmonicsDataRoot";
inline constexpr std::string_view kChainMediaType = "application/vnd.harmonics.chain";

/// The stage whose statement speaks of `stage`: itself, or for `<stage>/output` the stage it reads.
[[nodiscard]] std::string owner_of(const Opening& opening, const std::string& stage);

/// The statement of one stage; `chain` are its records.
[[nodiscard]] Json provenance_json(const VerifyReport& report, const StageReport& stage,
                                   const ExportClaims& claims, const Bytes& chain);

}  // namespace harmonics::inline in_custody
