// Power cuts at random points: what was acknowledged is there, what was not is there whole or not.
// HARMONICS_SOAK=1 runs a hundred times as many.

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include <campaign_testing.h>

#include "facts_testing.h"
#include "lossy_vfs_testing.h"
#include "sqlite_store.h"

namespace harmonics::inline in_store {
namespace {

/// Short, so that it is made, filled and begun anew before the power goes.
constexpr std::size_t kLogBytes = 32 << 10;

/// How much a power cut left.
struct Left {
  std::uint64_t acknowledged = 0;
  std::uint64_t tried = 0;
  std::vector<Fact> facts;
  std::string trouble;
};

/// Writes until the power goes at a random point, several times over, then reads.
Left write_and_cut(std::uint64_t seed, bool disk_lies) {
  LossyDisk disk(seed);
  Random random(seed, "power cuts");
  if (disk_lies) disk.ignore_syncs();
  Left left;
  for (int life = 0; life < 3; ++life) {
    disk.fail_after(5 + random.below(160));
    try {
      const auto store = open_sqlite_store_on("cluster.db", {"lossy", kLogBytes});
      ClusterState state;
      store->lead(std::chrono::seconds(1));
      store->load([&](Fact&& fact) { state.apply(fact); });
      while (true) {
        const std::uint64_t count = 1 + random.below(6);
        const std::vector<Fact> facts = story(left.acknowledged, count, random.below(3000));
        left.tried = left.acknowledged + count;
        store->append(facts);
        left.acknowledged += count;
      }
    } catch (const Error&) {
    }
    disk.lose_power();
    try {
      const auto store = open_sqlite_store_on("cluster.db", {"lossy", kLogBytes});
      left.facts = lead_and_read(*store);
    } catch (const Error& error) {
      left.trouble = error.what();
      return left;
    }
    if (left.facts.size() != left.acknowledged && left.facts.size() != left.tried) return left;
    left.acknowledged = left.facts.size();  // What came whole counts from now on.
  }
  return left;
}

bool lost(const Left& left) {
  return !left.trouble.empty() ||
         (left.facts.size() != left.acknowledged && left.facts.size() != left.tried);
}

TEST(PowerCuts, LoseNothingThatWasAcknowledged) {
  const std::uint64_t seeds = campaign(400, 40'000);
  std::uint64_t facts = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Left left = write_and_cut(seed, false);
    ASSERT_FALSE(lost(left)) << "seed " << seed << ": " << left.facts.size() << " facts left of "
                             << left.acknowledged << " acknowledged and " << left.tried
                             << " tried; " << left.trouble;
    facts += left.facts.size();
  }
  EXPECT_GT(facts, seeds) << "the cuts came too early to test anything";
}

TEST(PowerCuts, AMissingSyncWouldBeNoticed) {
  std::uint64_t noticed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    if (lost(write_and_cut(seed, true))) ++noticed;
  }
  EXPECT_GT(noticed, 20U);
}

}  // namespace
}  // namespace harmonics::inline in_store
