// Conversations with the server's reactor, written down and played again.
//
// A scenario is a text: lines that begin with "> " go in, the lines after them that begin with "< "
// are all that comes out, in order; anything else is prose. docs/formats does not know this format:
// it is for tests alone, and tests/scenarios/README.md lists the words.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_sim {

/// Plays the text and returns it with what really came out. Equal to `text`: the scenario holds. At
/// the end the facts, written, read back and applied to nothing, must give the same state, and so
/// must a snapshot; if not, an `Error` (kInternal). A line that cannot be read is an `Error`
/// (kInvalidArgument) with its number.
[[nodiscard]] std::string play_scenario(std::string_view text);

}  // namespace harmonics::inline in_sim
