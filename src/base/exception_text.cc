#include <harmonics/base/exception_text.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <typeinfo>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";

// As users spell it: without the inline namespaces of our modules.
std::string readable(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  std::string text = status == 0 ? name.get() : type.name();
  constexpr std::string_view kHouse = "harmonics::";
  constexpr std::string_view kModule = "in_";
  for (std::size_t at = 0; (at = text.find(kHouse, at)) != text.npos;) {
    at += kHouse.size();
    if (text.compare(at, kModule.size(), kModule) != 0) continue;
    const std::size_t end = text.find("::", at);
    if (end != text.npos) text.erase(at, end + 2 - at);
  }
  return text;
}

std::string without_words(const std::type_info& type) {
  return format("an exception of type '{}' that says nothing about itself", readable(type));
}

// The first line with more than blanks in it.
std::string_view first_line(std::string_view text) {
  const std::size_t start = text.find_first_not_of(kBlank);
  if (start == text.npos) return {};
  text = text.substr(start, text.find_first_of("\r\n", start) - start);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

}  // namespace

std::string exception_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "there is not enough memory";
  const char* const words = error.what();
  const std::string_view text = words == nullptr ? std::string_view() : words;
  const std::string_view line = first_line(text);
  if (line.empty()) return without_words(typeid(error));
  return std::string(dynamic_cast<const Error*>(&error) != nullptr ? text : line);
}

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return exception_text(error);
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    return type == nullptr ? "an exception that is none of C++" : without_words(*type);
  }
}

}  // namespace harmonics::inline in_base
