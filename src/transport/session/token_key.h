// From a token to the key that proves it: slow on purpose.
#pragma once

#include <array>
#include <string_view>

#include <harmonics/custody/digest.h>

namespace harmonics::inline in_transport {

/// What makes the keys of two listening processes differ, so that nobody can try words for all of
/// them at once.
using TokenSalt = std::array<std::byte, 16>;

/// That of this process, random.
[[nodiscard]] const TokenSalt& own_token_salt();

/// scrypt (RFC 7914) with N = 2^15, r = 8, p = 1: 32 MiB and about a tenth of a second, which is
/// what one guess costs whoever holds a greeting. The last keys are remembered; new ones are
/// computed one at a time, so that visitors cannot make this process compute or allocate at will.
/// Thread safe.
[[nodiscard]] Digest token_key(std::string_view token, const TokenSalt& salt);

/// A generous estimate of how many bits somebody who guesses has to try: the length times the
/// binary logarithm of how many different bytes there are.
[[nodiscard]] double token_bits(std::string_view token);
inline constexpr double kMinTokenBits = 48;

}  // namespace harmonics::inline in_transport
