#include <harmonics/base/exception_text.h>

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

/// A library's exception.
struct Foreign : std::exception {
  explicit Foreign(const char* text) : text_(text) {}
  const char* what() const noexcept override { return text_; }
  const char* text_;
};

template <typename Thrown>
std::string text_of(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return current_exception_text();
  }
}

TEST(ExceptionText, OfAnErrorIsAllOfIt) {
  EXPECT_EQ(text_of(Error(ErrorCode::kNotFound, "no such layer\nthere are: a, b")),
            "no such layer\nthere are: a, b");
}

TEST(ExceptionText, OfALibraryIsTheFirstLineThatSaysSomething) {
  EXPECT_EQ(text_of(Foreign("a wrong value\nframe #0: a trace")), "a wrong value");
  EXPECT_EQ(text_of(Foreign("\n \t\nUnknown builtin op: aten::x. \r\nHere:")),
            "Unknown builtin op: aten::x.");
}

TEST(ExceptionText, IsNeverEmpty) {
  for (const char* empty : {"", "\n\n", " \t", static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(text_of(Foreign(empty)),
              "an exception of type 'harmonics::(anonymous namespace)::Foreign' that says nothing "
              "about itself");
  }
  EXPECT_EQ(text_of(Error(ErrorCode::kInternal, "")),
            "an exception of type 'harmonics::Error' that says nothing about itself");
  EXPECT_EQ(text_of(7), "an exception of type 'int' that says nothing about itself");
  EXPECT_EQ(text_of(std::bad_alloc()), "there is not enough memory");
}

}  // namespace
}  // namespace harmonics::inline in_base
