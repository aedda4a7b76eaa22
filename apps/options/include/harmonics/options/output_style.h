// How a subcommand prints its results.
#pragma once

namespace harmonics {

enum class OutputStyle { kTable, kJson, kQuiet };

}  // namespace harmonics
