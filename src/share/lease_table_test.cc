// Turns, fairness, weights, deaths. Every test forks first, while it has a single thread.
#include <harmonics/share/lease_table.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <numeric>
#include <span>

#include <harmonics/base/log.h>

#include <error_testing.h>

#include "processes_testing.h"

namespace harmonics::inline in_share {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Nanoseconds kPatience = std::chrono::minutes(2);
const std::vector<SharedDevice> kOne = {{"emulated:1e6,0", 100}};

struct Board {
  std::array<std::atomic<std::uint64_t>, 4> rows;
  std::atomic<int> ready;
  std::atomic<bool> stop;
};

void hold_for(std::chrono::microseconds time) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  (void)never.wait_for(lock, time, [] { return false; });
}

// What equal users should each get: 1 is perfectly fair.
double jain_index(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

// Children that use a device without pause, each holding it for a while; the rows that each got
// until all together had `total`.
std::vector<double> rows_of_children(const std::vector<double>& weights,
                                     const std::vector<std::size_t>& sizes, std::uint64_t total) {
  const std::string name = unique_shared_name("fair");
  const SharedValue<Board> board;
  std::vector<Child> children;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    children.emplace_back([&, c] {
      LeaseTable leases(name, kOne, weights[c]);
      ++board->ready;
      while (!board->stop) {
        leases.acquire(0, sizes[c], kPatience);
        hold_for(std::chrono::microseconds(5 * sizes[c]));
        if (board->ready == static_cast<int>(weights.size())) board->rows[c] += sizes[c];
        leases.release(0, sizes[c]);
      }
    });
  }
  await([&] {
    return std::accumulate(board->rows.begin(), board->rows.end(), std::uint64_t{0}) >= total;
  });
  std::vector<double> rows;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    rows.push_back(static_cast<double>(board->rows[c]));
  }
  board->stop = true;
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  return rows;
}

TEST(SharedLeases, AreFairByRows) {
  EXPECT_GE(jain_index(rows_of_children({1, 1, 1}, {100, 100, 100}, 30'000)), 0.95);
  EXPECT_GE(jain_index(rows_of_children({1, 1}, {100, 25}, 20'000)), 0.95)
      << "one with small sub-batches gets as many rows";
}

TEST(SharedLeases, FollowWeights) {
  const std::vector<double> rows = rows_of_children({3, 1}, {100, 100}, 30'000);
  const std::array<double, 2> shares = {rows[0] / 3, rows[1]};
  EXPECT_GE(jain_index(shares), 0.95) << rows[0] << " and " << rows[1];
}

TEST(SharedLeases, AKilledProcesssLeaseComesBack) {
  const std::string name = unique_shared_name("killed");
  const SharedValue<Board> board;
  const Child child([&] {
    LeaseTable leases(name, kOne, 1);
    leases.acquire(0, 100, kPatience);
    board->ready = 1;
    for (;;) ::pause();
  });
  const LogCapture log;
  LeaseTable leases(name, kOne, 1);
  await([&] { return board->ready == 1; });
  EXPECT_EQ(leases.held_rows(0), 100U);
  EXPECT_THAT(error_of([&] { leases.acquire(0, 1, std::chrono::milliseconds(120)); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("(100 rows)")));
  child.kill();  // its parent does not fetch it: it is a zombie now
  leases.acquire(0, 100, kPatience);
  EXPECT_EQ(leases.held_rows(0), 100U);
  EXPECT_THAT(log.lines(), ::testing::Contains(HasSubstr("died with 100 rows")));
  leases.release(0, 100);
  EXPECT_EQ(leases.held_rows(0), 0U);
}

TEST(SharedLeases, AProcessThatDiesInLineIsPassedOver) {
  const std::string name = unique_shared_name("line");
  const SharedValue<Board> board;
  const Child child([&] {
    LeaseTable leases(name, kOne, 1);
    await([&] { return board->ready == 1; });
    board->ready = 2;
    leases.acquire(0, 100, kPatience);
  });
  LeaseTable leases(name, kOne, 1);
  leases.acquire(0, 60, kPatience);
  board->ready = 1;
  await([&] { return board->ready == 2; });
  child.kill();
  leases.acquire(0, 40, kPatience);
  EXPECT_EQ(leases.held_rows(0), 100U);
}

}  // namespace
}  // namespace harmonics::inline in_share
