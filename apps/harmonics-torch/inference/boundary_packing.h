// The flags --boundary-bits and --gradient-bits: from words to what schedulers take, and back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/transport/packing.h>

namespace harmonics::inline in_torch_program {

/// What the flags say of the boundaries between all parts of the run. Flags where there is one part
/// only, and a boundary that is not there, are an Error that says which there are.
[[nodiscard]] BoundaryPacking packing_of(const BoundaryBitsFlags& flags,
                                         std::span<const HarmonicGraph> parts);

/// The same where a plan says bits of what leaves each part but the last (empty: it says nothing):
/// a boundary has the fewest of those that it crosses, unless the flags say otherwise.
[[nodiscard]] BoundaryPacking packing_of(const BoundaryBitsFlags& flags,
                                         std::span<const HarmonicGraph> parts,
                                         std::span<const int> planned);

/// The flags again, for a process that is started.
[[nodiscard]] std::vector<std::string> bits_words(const BoundaryBitsFlags& flags);

}  // namespace harmonics::inline in_torch_program
