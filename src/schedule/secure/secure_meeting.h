// What secure parts in several processes tell each other when they meet (private to schedule).
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <harmonics/schedule/secure_run.h>
#include <harmonics/transport/message.h>

#include "remote/wire.h"

namespace harmonics::inline in_schedule {

/// The opening of a run whose parts are in several processes: the same in all of them. A part that
/// is not secure, or a signer whom the roster of `options` lacks or knows with another key, is an
/// Error that names it.
[[nodiscard]] Opening opening_of(const std::vector<PartRecord>& parts,
                                 const SecureOptions& options);
/// The nonce of a run that several processes have each given one for.
[[nodiscard]] RunNonce mixed_nonce(const std::set<RunNonce>& nonces);
/// Keys come from the roster here, never from what others say: a signer whom it lacks or knows with
/// another key is an Error that names `folder`.
void check_signer(const SecurePart& part, const Roster& roster,
                  const std::filesystem::path& folder);
/// An Error when a part of the run is secure and this process is not.
void refuse_secure_parts(const std::vector<PartRecord>& parts);

/// Which tensor a message carries, for custody.
[[nodiscard]] Passage passage_of(const std::string& boundary, const Message& message);

}  // namespace harmonics::inline in_schedule
