// How long whoever has failed goes on for the sake of its neighbours (private to schedule).
#pragma once

#include <harmonics/base/clock.h>

namespace harmonics::inline in_schedule {

/// For the last words to those who would otherwise wait.
inline constexpr Nanoseconds kFarewell = std::chrono::seconds(3);

}  // namespace harmonics::inline in_schedule
