#include "token_cache.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "error_testing.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::uint64_t kBlockBytes = 2 * 2 * 16 * 4 * sizeof(float);

TokenCache small_cache(std::int64_t blocks) {
  return TokenCache({{2, 4}}, static_cast<std::uint64_t>(blocks) * kBlockBytes);
}

TEST(TokenCache, GivesRoomInBlocksUpToItsCeiling) {
  TokenCache cache = small_cache(3);
  EXPECT_EQ(cache.most_tokens(), 48);
  EXPECT_EQ(cache.token_bytes(), kBlockBytes / 16);
  cache.reserve(1, 17);
  EXPECT_EQ(cache.held_tokens(), 32);
  cache.reserve(2, 16);
  expect_error(ErrorCode::kResourceExhausted, "room for 48 tokens, of which 48 are taken",
               [&] { cache.reserve(2, 17); });
  EXPECT_EQ(cache.length(2), 0);
  cache.drop(1);
  cache.reserve(2, 48);
  EXPECT_EQ(cache.held_tokens(), 48);
  cache.drop(2);
  cache.drop(2);
  EXPECT_EQ(cache.held_tokens(), 0);
}

TEST(TokenCache, ForksShareBlocksUntilOneWrites) {
  TokenCache cache = small_cache(4);
  cache.reserve(1, 20);
  cache.set_length(1, 20);
  cache.keys(1, 0, 0)[0] = 7;
  cache.keys(1, 0, 16)[0] = 8;
  cache.fork(1, 2, 18);
  EXPECT_EQ(cache.length(2), 18);
  EXPECT_EQ(cache.held_tokens(), 32);
  EXPECT_EQ(cache.keys(2, 0, 0), cache.keys(1, 0, 0));
  cache.reserve(2, 19);  // takes its own copy of the last block
  EXPECT_EQ(cache.held_tokens(), 48);
  EXPECT_EQ(cache.keys(2, 0, 0), cache.keys(1, 0, 0));
  EXPECT_NE(cache.keys(2, 0, 16), cache.keys(1, 0, 16));
  EXPECT_EQ(cache.keys(2, 0, 16)[0], 8);
  cache.keys(2, 0, 16)[0] = 9;
  EXPECT_EQ(cache.keys(1, 0, 16)[0], 8);
  cache.drop(1);
  EXPECT_EQ(cache.keys(2, 0, 0)[0], 7);
  expect_error(ErrorCode::kInvalidArgument, "sequence 3", [&] { cache.fork(2, 3, 40); });
}

}  // namespace
}  // namespace harmonics::inline in_runtime
