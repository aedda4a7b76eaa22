// harmonics-torch: the program beside the front that holds everything that needs libtorch.
#pragma once

#include <string>

namespace harmonics::inline in_front {

/// Replaces this process by harmonics-torch with the same arguments. When it is missing or does not
/// start, an Error says how to get it.
[[noreturn]] void become_torch_program(char** argv);

/// Runs `harmonics-torch <flag>` and gives what it printed; at most 64 KiB. A program that is
/// missing, fails or prints more is an Error.
[[nodiscard]] std::string ask_torch_program(const std::string& flag);

}  // namespace harmonics::inline in_front
