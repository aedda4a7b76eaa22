// What the links of a stream can do, measured before its first batch (private to schedule).
//
// The part that sends over a boundary asks and the part that takes it answers, in control messages
// whose micro-batch says which: kCarrierProbe with bytes that cannot be compressed, kCarrierAnswer,
// and kCarrierProbeEnd. All parts of a stream probe, or none does.
#pragma once

#include <cstdint>
#include <vector>

#include <harmonics/schedule/stream.h>

#include "stage_driver.h"

namespace harmonics::inline in_schedule {

// Above all topics of notices (remote/wire.h).
inline constexpr std::uint32_t kCarrierProbe = 0xff00'0001;
inline constexpr std::uint32_t kCarrierAnswer = 0xff00'0002;
inline constexpr std::uint32_t kCarrierProbeEnd = 0xff00'0003;

/// Blocks grow from the first size to the last until one takes long enough to be measured well.
inline constexpr std::int64_t kFirstProbeBytes = std::int64_t{64} << 10;
inline constexpr std::int64_t kLastProbeBytes = std::int64_t{16} << 20;

/// Answers the parts before this one, then asks those behind it, the nearest first: so no two wait
/// for each other. Gives a measure for each boundary that leaves, that of the slowest way where
/// copies take it. Every wait ends after `patience`; a part that does not take part is an Error
/// that says so.
[[nodiscard]] std::vector<CarrierMeasure> probe_carriers(StageEnds& ends, Nanoseconds patience);

}  // namespace harmonics::inline in_schedule
