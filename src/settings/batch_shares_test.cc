#include <harmonics/settings/batch_shares.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include <harmonics/base/error.h>

namespace harmonics::inline in_settings {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointee;

std::string error_of(std::string_view text) {
  try {
    static_cast<void>(BatchShares::parse(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BatchShares, AreReadBackFromTheirText) {
  for (const char* text :
       {"equal", "auto", "3,1", "1", "3,1/18:1,1", "3,1/18:1,1/40:0,1", "7:192,64/9:128,128"}) {
    EXPECT_EQ(BatchShares::parse(text).text(), text);
  }
  EXPECT_TRUE(BatchShares().are_equal());
  EXPECT_TRUE(BatchShares::parse("auto").are_measured());
  EXPECT_EQ(BatchShares::parse("1:2,1"), BatchShares::parse("2,1"));
}

TEST(BatchShares, HoldFromTheirStepOn) {
  const BatchShares shares = BatchShares::parse("5:3,1/18:1,1");
  EXPECT_EQ(shares.at(3), nullptr);
  EXPECT_THAT(shares.at(4), Pointee(ElementsAre(3, 1)));
  EXPECT_THAT(shares.at(16), Pointee(ElementsAre(3, 1)));
  EXPECT_THAT(shares.at(17), Pointee(ElementsAre(1, 1)));
  EXPECT_EQ(shares.count(), 2);
}

TEST(BatchShares, AChangeReplacesThoseThatWereToComeLater) {
  BatchShares shares = BatchShares::parse("3,1/18:1,1");
  EXPECT_TRUE(shares.change(17, {1, 0}));
  EXPECT_TRUE(shares.change(20, {1, 0}));  // as it is
  EXPECT_EQ(shares.text(), "3,1/18:1,0");
}

TEST(BatchShares, SayWhatIsWrong) {
  EXPECT_THAT(error_of("3,x"), HasSubstr("'x' is no weight from 0 to"));
  EXPECT_THAT(error_of("-1,2"), HasSubstr("'-1' is no weight"));
  EXPECT_THAT(error_of(""), HasSubstr("'' is no weight"));
  EXPECT_THAT(error_of("0,0"), HasSubstr("nobody computes anything"));
  EXPECT_THAT(error_of("3,1/1,1"), HasSubstr("'1,1' does not say from which step on"));
  EXPECT_THAT(error_of("3,1/0:1,1"), HasSubstr("'0' is no step"));
  EXPECT_THAT(error_of("3,1/9:1,1,1"), HasSubstr("is not for 2 replicas"));
  EXPECT_THAT(error_of("3,1/9:1,1/9:2,1"), HasSubstr("does not come after"));
  EXPECT_THAT(error_of("16777217"), HasSubstr("is no weight"));
}

TEST(BatchShares, CeilingsAreReached) {
  std::string many = "1";
  for (std::size_t i = 1; i < kMaxShares; ++i) many += ",1";
  EXPECT_EQ(BatchShares::parse(many).count(), kMaxShares);
  EXPECT_THAT(error_of(many + ",1"), HasSubstr("more than 1024"));
  BatchShares shares;
  for (std::size_t i = 0; i < kMaxShareChanges; ++i) {
    EXPECT_TRUE(shares.change(i, {1, static_cast<std::int64_t>(i % 2)}));
  }
  EXPECT_FALSE(shares.change(kMaxShareChanges, {5, 5}));
}

TEST(DealRows, EveryRowIsDealtOnce) {
  for (const std::int64_t rows : {1, 2, 3, 7, 64, 255, 256, 1000}) {
    for (const ShareWeights& weights :
         {ShareWeights{3, 1}, ShareWeights{1, 1, 1}, ShareWeights{0, 2, 5}, ShareWeights{1, 0},
          ShareWeights{1, 1000}, ShareWeights{192, 64}}) {
      for (const std::int64_t micro_batches : {1, 4}) {
        const DealtRows dealt = deal_rows(rows, micro_batches, weights);
        ASSERT_EQ(dealt.size(), weights.size());
        std::int64_t all = 0;
        for (std::size_t i = 0; i < dealt.size(); ++i) {
          const std::int64_t own = std::accumulate(dealt[i].begin(), dealt[i].end(), 0L);
          EXPECT_LE(std::ssize(dealt[i]), micro_batches);
          EXPECT_TRUE(weights[i] > 0 || own == 0);
          for (const std::int64_t some : dealt[i]) EXPECT_GE(some, 1);
          all += own;
        }
        EXPECT_EQ(all, rows);
      }
    }
  }
}

TEST(DealRows, FollowTheWeights) {
  EXPECT_THAT(deal_rows(256, 1, {3, 1}), ElementsAre(ElementsAre(192), ElementsAre(64)));
  EXPECT_THAT(deal_rows(5, 1, {1, 1}), ElementsAre(ElementsAre(3), ElementsAre(2)));
  EXPECT_THAT(deal_rows(10, 3, {1, 0, 1}),
              ElementsAre(ElementsAre(2, 2, 1), IsEmpty(), ElementsAre(2, 2, 1)));
}

}  // namespace
}  // namespace harmonics::inline in_settings
