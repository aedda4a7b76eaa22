// harmonics-cluster: the program beside the front that holds what speaks gRPC.
#pragma once

namespace harmonics::inline in_front {

/// Replaces this process by harmonics-cluster with the same arguments. When it is missing or does
/// not start, an Error says how to get it.
[[noreturn]] void become_cluster_program(char** argv);

}  // namespace harmonics::inline in_front
