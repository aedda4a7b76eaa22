// Counted resources as flags say them.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/cluster/needs.h>

namespace harmonics::inline in_clients {

/// "fpga=2" and its like, also several with commas between, as counts; `flag` is named in errors
/// (kInvalidArgument).
[[nodiscard]] ResourceCounts counts_from(const TextPairs& pairs, std::string_view flag);

}  // namespace harmonics::inline in_clients
