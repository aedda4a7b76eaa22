#include <harmonics/base/channel.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace harmonics::inline in_base {
namespace {

constexpr auto kAtOnce = std::chrono::nanoseconds(0);

TEST(Channel, KeepsOrderAndAnswersNothingWhenEmpty) {
  Channel<int> channel(3);
  EXPECT_TRUE(channel.push(1));
  EXPECT_TRUE(channel.push(2));
  EXPECT_EQ(channel.size(), 2u);
  EXPECT_EQ(channel.pop(kAtOnce), 1);
  EXPECT_EQ(channel.pop(kAtOnce), 2);
  EXPECT_EQ(channel.pop(kAtOnce), std::nullopt);
}

TEST(Channel, HoldsAtLeastOneAndMovesItsValues) {
  Channel<std::unique_ptr<int>> channel(0);
  EXPECT_EQ(channel.capacity(), 1u);
  EXPECT_TRUE(channel.push(std::make_unique<int>(5)));
  const auto value = channel.pop(kAtOnce);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(**value, 5);
}

TEST(Channel, AfterCloseItDrainsAndRefuses) {
  Channel<int> channel(2);
  EXPECT_TRUE(channel.push(1));
  channel.close();
  EXPECT_TRUE(channel.closed());
  EXPECT_FALSE(channel.push(2));
  EXPECT_EQ(channel.pop(Channel<int>::kForever), 1);
  EXPECT_EQ(channel.pop(Channel<int>::kForever), std::nullopt);
}

TEST(Channel, WaitsHoweverLongTheTimeout) {
  Channel<int> channel(1);
  std::thread giver([&] { channel.push(7); });
  EXPECT_EQ(channel.pop(std::chrono::nanoseconds::max()), 7);
  giver.join();
}

TEST(Channel, CloseWakesWhoeverWaits) {
  Channel<int> empty(1);
  Channel<int> full(1);
  full.push(1);
  std::optional<int> popped = 0;
  bool pushed = true;
  std::thread taker([&] { popped = empty.pop(Channel<int>::kForever); });
  std::thread giver([&] { pushed = full.push(2); });
  empty.close();
  full.close();
  taker.join();
  giver.join();
  EXPECT_EQ(popped, std::nullopt);
  EXPECT_FALSE(pushed);
}

TEST(Channel, ManyThreadsLoseNothingAndNeverPassTheCapacity) {
  constexpr int kGivers = 4;
  constexpr int kEach = 5'000;
  constexpr std::size_t kCapacity = 8;
  Channel<int> channel(kCapacity);
  std::atomic<bool> overfull = false;
  std::vector<std::vector<int>> taken(3);
  std::vector<std::thread> takers;
  for (auto& mine : taken) {
    takers.emplace_back([&] {
      while (const auto value = channel.pop(Channel<int>::kForever)) {
        mine.push_back(*value);
        if (channel.size() > kCapacity) overfull = true;
      }
    });
  }
  std::vector<std::thread> givers;
  for (int giver = 0; giver < kGivers; ++giver) {
    givers.emplace_back([&, giver] {
      for (int i = 0; i < kEach; ++i) channel.push(giver * kEach + i);
    });
  }
  for (auto& thread : givers) thread.join();
  channel.close();
  for (auto& thread : takers) thread.join();

  std::vector<int> seen(kGivers * kEach, 0);
  for (const auto& mine : taken) {
    std::vector<int> last(kGivers, -1);
    for (const int value : mine) {
      ++seen.at(static_cast<std::size_t>(value));
      EXPECT_LT(last[value / kEach], value) << "one giver's values came out of order";
      last[value / kEach] = value;
    }
  }
  EXPECT_EQ(seen, std::vector<int>(kGivers * kEach, 1));
  EXPECT_FALSE(overfull);
}

}  // namespace
}  // namespace harmonics::inline in_base
