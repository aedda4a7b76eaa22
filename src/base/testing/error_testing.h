// For tests: what a piece of work throws.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {

/// The Error that `work` throws as "code: message"; "no error" when it throws none.
template <typename Work>
std::string error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return format("{}: {}", error_code_name(error.code()), error.what());
  }
  return "no error";
}

/// Expects `work` to throw an Error of this code whose message holds `text`.
template <typename Work>
void expect_error(ErrorCode code, const std::string& text, Work&& work) {
  try {
    work();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

}  // namespace harmonics::inline in_base
