// NAME=SPEC, as --bind and --out take it.
#pragma once

#include <string>

namespace harmonics::inline in_settings {

/// `NAME=SPEC`: a producer with its source, or a consumer with its destination.
struct Binding {
  std::string name;
  std::string spec;
};

}  // namespace harmonics::inline in_settings
