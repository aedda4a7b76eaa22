// What the build found of the optional parts. The body is made by cmake/HarmonicsParts.cmake.
#pragma once

#include <span>

namespace harmonics::inline in_front {

struct OptionalPart {
  const char* name;
  bool built;
  /// What it is for, or why it was left out.
  const char* note;
};

[[nodiscard]] std::span<const OptionalPart> optional_parts();

}  // namespace harmonics::inline in_front
