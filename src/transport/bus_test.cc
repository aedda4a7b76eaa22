#include <harmonics/transport/bus.h>

#include <error_testing.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harmonics::inline in_transport {
namespace {

using ::testing::HasSubstr;

// What only the bus promises; the rest is in the contract suite.
TEST(Bus, HandsTheVeryTensorOver) {
  auto [a, b] = make_bus("hidden@1");
  Message message;
  message.tensor = Tensor::zeros({1000});
  a->send(message, deadline_in(std::chrono::minutes(1)));
  const Message there = b->receive(deadline_in(std::chrono::minutes(1))).value();
  EXPECT_EQ(there.tensor.bytes().data(), message.tensor.bytes().data());
  EXPECT_EQ(there.tensor.buffer(), message.tensor.buffer());
}

TEST(Bus, WrongWindowsAreErrors) {
  EXPECT_THAT(error_of([] { (void)make_bus("x", {0, 1}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([] { (void)make_bus("x", {1, 0}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([] {
                (void)make_bus("x", {1, kMaxWindowMessages + 1});
              }),
              HasSubstr("invalid_argument"));
}

}  // namespace
}  // namespace harmonics::inline in_transport
