// Synthetic tensors of the right shape for a part that runs alone (private to place).
#pragma once

#include <cstdint>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_place {

/// One batch for every producer of the part, on the device. Floats lie in [0, 1). Whole numbers are
/// ids that their users accept: below the rows of an embedding, below the classes of a cross
/// entropy, else 0; a mask is 1 everywhere. A function of the names and shapes alone.
[[nodiscard]] NamedTensors synthetic_inputs(const HarmonicGraph& part, std::int64_t batch,
                                            Device device);

/// What the parts behind would send back: for every boundary that takes gradients one tensor
/// {slots, batch, …}, on the device.
[[nodiscard]] NamedTensors synthetic_gradients(const HarmonicGraph& part, std::int64_t batch,
                                               Device device);

/// The ids that a producer may carry lie in 0..limit-1.
[[nodiscard]] std::int64_t id_limit(const HarmonicGraph& part, const std::string& producer);

}  // namespace harmonics::inline in_place
