// Batches out of requests, with time as an argument.
#include "batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <harmonics/base/random.h>

namespace harmonics::inline in_serve {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Batcher::Waiting request(std::uint64_t ticket, std::int64_t rows, milliseconds arrived,
                         milliseconds expires = milliseconds(1000)) {
  return {ticket, rows, arrived, expires};
}

TEST(Batcher, WaitsForCompanyNoLongerThanItWasTold) {
  Batcher batcher({8, 100, milliseconds(5), false});
  ASSERT_TRUE(batcher.admit(request(1, 2, milliseconds(10))));
  EXPECT_EQ(batcher.due(), Nanoseconds(milliseconds(15)));
  EXPECT_THAT(batcher.take(milliseconds(14), false), IsEmpty());
  ASSERT_TRUE(batcher.admit(request(2, 3, milliseconds(14))));
  EXPECT_EQ(batcher.due(), Nanoseconds(milliseconds(15)));
  EXPECT_THAT(batcher.take(milliseconds(15), false), ElementsAre(1, 2));
  EXPECT_TRUE(batcher.empty());
  EXPECT_EQ(batcher.due(), std::nullopt);
}

TEST(Batcher, AFullBatchGoesAtOnce) {
  Batcher batcher({4, 100, milliseconds(5), false});
  ASSERT_TRUE(batcher.admit(request(1, 3, milliseconds(0))));
  EXPECT_THAT(batcher.take(milliseconds(0), false), IsEmpty());
  ASSERT_TRUE(batcher.admit(request(2, 1, milliseconds(0))));
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(1, 2));
}

TEST(Batcher, WhatDoesNotFitBeginsTheNextBatchAndNobodyOvertakes) {
  Batcher batcher({4, 100, milliseconds(5), false});
  ASSERT_TRUE(batcher.admit(request(1, 3, milliseconds(0))));
  ASSERT_TRUE(batcher.admit(request(2, 2, milliseconds(0))));
  ASSERT_TRUE(batcher.admit(request(3, 1, milliseconds(0))));
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(1));
  EXPECT_THAT(batcher.take(milliseconds(0), false), IsEmpty());
  EXPECT_THAT(batcher.take(milliseconds(5), false), ElementsAre(2, 3));
}

TEST(Batcher, AloneMeansOneRequestEach) {
  Batcher batcher({8, 100, milliseconds(5), true});
  ASSERT_TRUE(batcher.admit(request(1, 1, milliseconds(0))));
  ASSERT_TRUE(batcher.admit(request(2, 1, milliseconds(0))));
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(1));
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(2));
}

TEST(Batcher, ARequestThatIsLargerThanBatchesGoesAlone) {
  Batcher batcher({8, 100, milliseconds(5), false});
  batcher.set_rows(2);
  ASSERT_TRUE(batcher.admit(request(1, 3, milliseconds(0))));
  ASSERT_TRUE(batcher.admit(request(2, 1, milliseconds(0))));
  ASSERT_TRUE(batcher.admit(request(3, 1, milliseconds(0))));
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(1));
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(2, 3));
}

TEST(Batcher, HurryWaitsForNobody) {
  Batcher batcher({8, 100, milliseconds(5), false});
  ASSERT_TRUE(batcher.admit(request(1, 1, milliseconds(0))));
  EXPECT_THAT(batcher.take(milliseconds(0), true), ElementsAre(1));
}

TEST(Batcher, RowsBeyondTheQueueAreNotTaken) {
  Batcher batcher({4, 6, milliseconds(5), false});
  ASSERT_TRUE(batcher.admit(request(1, 4, milliseconds(0))));
  EXPECT_FALSE(batcher.admit(request(2, 3, milliseconds(0))));
  EXPECT_TRUE(batcher.admit(request(3, 2, milliseconds(0))));
  EXPECT_EQ(batcher.waiting_rows(), 6);
  EXPECT_THAT(batcher.take(milliseconds(0), false), ElementsAre(1));
  EXPECT_TRUE(batcher.admit(request(4, 4, milliseconds(0))));
}

TEST(Batcher, WhatExpiresGivesItsRoomBack) {
  Batcher batcher({8, 3, milliseconds(50), false});
  ASSERT_TRUE(batcher.admit(request(1, 2, milliseconds(0), milliseconds(30))));
  ASSERT_TRUE(batcher.admit(request(2, 1, milliseconds(0), milliseconds(20))));
  EXPECT_EQ(batcher.next_expiry(), Nanoseconds(milliseconds(20)));
  EXPECT_THAT(batcher.expire(milliseconds(19)), IsEmpty());
  EXPECT_THAT(batcher.expire(milliseconds(20)), ElementsAre(2));
  EXPECT_EQ(batcher.waiting_rows(), 2);
  EXPECT_TRUE(batcher.remove(1));
  EXPECT_FALSE(batcher.remove(1));
  EXPECT_EQ(batcher.next_expiry(), std::nullopt);
  EXPECT_EQ(batcher.waiting_rows(), 0);
}

// Whatever comes: every request comes out once, in order, in a batch that holds it, and none waits
// past its time while somebody takes.
TEST(Batcher, AnyRequestsComeOutOnceInOrderAndInTime) {
  Random chance(7, "batcher");
  for (int round = 0; round < 200; ++round) {
    const auto rows = static_cast<std::int64_t>(1 + chance.below(8));
    const milliseconds wait(static_cast<std::int64_t>(chance.below(5)));
    Batcher batcher({rows, 50, wait, false});
    std::map<std::uint64_t, Batcher::Waiting> waiting;
    std::uint64_t admitted = 0;
    std::uint64_t next = 1;
    for (milliseconds now(0); now < milliseconds(60); ++now) {
      for (std::uint64_t more = chance.below(3); more > 0; --more) {
        const auto wanted = request(
            admitted + 1,
            1 + static_cast<std::int64_t>(chance.below(static_cast<std::uint64_t>(rows))), now);
        if (batcher.admit(wanted)) waiting[++admitted] = wanted;
      }
      for (;;) {
        const auto batch = batcher.take(now, false);
        if (batch.empty()) break;
        std::int64_t sum = 0;
        for (const std::uint64_t ticket : batch) {
          EXPECT_EQ(ticket, next++);
          sum += waiting.at(ticket).rows;
          EXPECT_LE(now - waiting.at(ticket).arrived, Nanoseconds(wait));
          waiting.erase(ticket);
        }
        EXPECT_LE(sum, rows);
      }
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_serve
