// Options that came as keywords, as what they must be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>

namespace harmonics::python {

/// What Python calls a type that options have.
template <typename T>
[[nodiscard]] constexpr const char* option_kind() {
  if constexpr (std::is_same_v<T, bool>) return "a bool";
  if constexpr (std::is_integral_v<T>) return "an int";
  if constexpr (std::is_floating_point_v<T>) return "a float";
  if constexpr (std::is_same_v<T, std::filesystem::path>) return "a path";
  if constexpr (std::is_same_v<T, std::string>) return "a str";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a list of str";
  return "a list of int";
}

/// The option's value; one of another type is a TypeError that names the option.
template <typename T>
[[nodiscard]] T option(const std::string& name, nanobind::handle value) {
  T made{};
  // A text is a sequence of texts to Python, and True a number.
  const bool text_for_list =
      std::is_same_v<T, std::vector<std::string>> && nanobind::isinstance<nanobind::str>(value);
  const bool truth_for_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> &&
                                nanobind::isinstance<nanobind::bool_>(value);
  if (!text_for_list && !truth_for_number && nanobind::try_cast<T>(value, made)) return made;
  throw nanobind::type_error(format("{} is {}, and {} is a {}", name, option_kind<T>(),
                                    nanobind::repr(value).c_str(),
                                    nanobind::type_name(value.type()).c_str())
                                 .c_str());
}

}  // namespace harmonics::python
