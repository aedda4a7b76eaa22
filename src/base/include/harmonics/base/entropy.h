// Chance that nobody can guess, from the kernel: for secrets and for names that must not meet. What
// is to be repeated takes random.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace harmonics::inline in_base {

/// Fills `out` with random bytes. An Error (kInternal) when the kernel gives none. Any thread.
void fill_entropy(std::span<std::byte> out);

/// So many random bytes in lower-case hexadecimal, two digits each.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace harmonics::inline in_base
