// How a subcommand prints its results.
#pragma once

namespace harmonics::inline in_options {

enum class OutputStyle { kTable, kJson, kQuiet };

}  // namespace harmonics::inline in_options
