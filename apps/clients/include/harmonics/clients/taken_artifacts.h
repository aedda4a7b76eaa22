// The files that a task left, brought here.
#pragma once

#include <vector>

#include <harmonics/options/cluster_commands.h>
#include <harmonics/rpc/client.h>

namespace harmonics::inline in_clients {

/// The artifacts that the command asks for, which lie in its folder `to` (where it names one) when
/// this returns: each under another name until it is whole. An artifact that is not there, and one
/// whose path would leave that folder, is an Error.
[[nodiscard]] std::vector<ArtifactView> take_artifacts(ClusterClient& client,
                                                       const ArtifactsCommand& command);

}  // namespace harmonics::inline in_clients
