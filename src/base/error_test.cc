#include <harmonics/base/error.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <unordered_set>

#include <harmonics/base/ids.h>

namespace harmonics::inline in_base {
namespace {

TEST(Error, CarriesCodeAndFormattedMessage) {
  try {
    fail(ErrorCode::kNotFound, "no layer '{}' among {}", "conv", 3);
    FAIL() << "fail returned";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no layer 'conv' among 3");
    EXPECT_EQ(dynamic_cast<const Error&>(error).code(), ErrorCode::kNotFound);
  }
}

TEST(Error, NamesEveryCodeOnce) {
  std::set<std::string_view> names;
  for (int code = 1; code <= 16; ++code) {
    names.insert(error_code_name(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), 16u);
  EXPECT_EQ(error_code_name(ErrorCode::kDataLoss), "data_loss");
}

TEST(Error, TranslatesWhatTheSystemSays) {
  const auto code_of = [](int value) {
    try {
      fail_errno(value, "cannot open 'x'");
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("cannot open 'x': "));
      return error.code();
    }
  };
  EXPECT_EQ(code_of(ENOENT), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(EROFS), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code_of(ENOSPC), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of(EIO), ErrorCode::kUnavailable);
}

TEST(Id, KeepsKindsApartAndOrdersOneKind) {
  using StepId = Id<struct StepTag>;
  using BatchId = Id<struct BatchTag>;
  static_assert(!std::is_convertible_v<StepId, BatchId>);
  static_assert(!std::is_convertible_v<int, StepId>);
  EXPECT_LT(StepId{1}, StepId{2});
  const std::unordered_set<StepId> seen = {StepId{1}, StepId{1}, StepId{2}};
  EXPECT_EQ(seen.size(), 2u);
}

}  // namespace
}  // namespace harmonics::inline in_base
