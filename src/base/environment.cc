#include <harmonics/base/environment.h>

#include <cstdlib>

namespace harmonics::inline in_base {

std::optional<std::string> environment_value(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

std::string environment_text(const char* name) {
  return environment_value(name).value_or(std::string());
}

}  // namespace harmonics::inline in_base
