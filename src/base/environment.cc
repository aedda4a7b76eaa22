#include <harmonics/base/environment.h>

#include <cstdlib>

namespace harmonics::inline in_base {

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace harmonics::inline in_base
