// What every store promises. A new one joins with a line in `places()`.
#include <filesystem>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/policy.h>
#include <harmonics/cluster/reactor.h>

#include <temporary_folder_testing.h>

#include "batches.h"
#include "facts_testing.h"
#ifdef HARMONICS_HAS_STORE
#include "postgres_testing.h"
#endif

namespace harmonics::inline in_store {
namespace {

/// One place where facts are kept; `open` may be called several times, also at once.
struct Place {
  std::function<std::unique_ptr<Store>()> open;
  std::string skip;  ///< Why it cannot be tested here.
  std::shared_ptr<void> owned;
};

const std::map<std::string, std::function<Place()>>& places() {
  static const std::map<std::string, std::function<Place()>> table{
      {"memory",
       [] {
         auto disk = make_memory_disk();
         return Place{[disk] { return open_memory_store(disk); }, "", nullptr};
       }},
#ifdef HARMONICS_HAS_STORE
      {"sqlite",
       [] {
         auto folder = std::make_shared<TemporaryFolder>();
         return Place{[folder] { return open_store((*folder / "x.db").string()); }, "", folder};
       }},
      {"postgres",
       [] {
         static std::string why_not;
         static const std::unique_ptr<TestPostgres> server = TestPostgres::start(why_not);
         if (server == nullptr) return Place{{}, why_not, nullptr};
         const std::string url = server->make_database();
         return Place{[url] { return open_store(url); }, "", nullptr};
       }},
#endif
  };
  return table;
}

class StoreContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    place_ = places().at(GetParam())();
    if (!place_.skip.empty()) GTEST_SKIP() << place_.skip;
  }
  /// A fresh process on the place.
  [[nodiscard]] std::vector<Fact> reread() const {
    const std::unique_ptr<Store> store = place_.open();
    return lead_and_read(*store);
  }
  Place place_;
};

TEST_P(StoreContract, StartsEmpty) { EXPECT_TRUE(reread().empty()); }

TEST_P(StoreContract, WhatWasAppendedComesBackInOrder) {
  {
    const auto store = place_.open();
    (void)lead_and_read(*store);
    store->append(story(0, 3));
    store->append({});
    store->append(story(3, 1));
    EXPECT_GT(store->sizes().journal_bytes, 0U);
  }
  {
    const auto store = place_.open();
    EXPECT_EQ(lead_and_read(*store), story(0, 4));
    store->append(story(4, 5));
  }
  EXPECT_EQ(reread(), story(0, 9));
}

TEST_P(StoreContract, AVeryLargeBatchIsOneCommit) {
  const std::vector<Fact> facts = story(0, 300, kMaxTaskTextBytes / 2);
  {
    const auto store = place_.open();
    (void)lead_and_read(*store);
    store->append(facts);
    EXPECT_GT(store->sizes().journal_bytes, kRowBytes) << "more than one row";
  }
  EXPECT_EQ(reread(), facts);
}

TEST_P(StoreContract, CompactingKeepsTheState) {
  ClusterState state;
  {
    const auto store = place_.open();
    (void)lead_and_read(*store);
    const std::vector<Fact> facts = story(0, 50);
    store->append(facts);
    for (const Fact& fact : facts) state.apply(fact);
    store->compact(state);
    EXPECT_EQ(store->sizes().journal_bytes, 0U);
    EXPECT_GT(store->sizes().snapshot_bytes, 0U);
    const std::vector<Fact> more = story(50, 10);
    store->append(more);
    for (const Fact& fact : more) state.apply(fact);
  }
  {
    const auto store = place_.open();
    store->lead(std::chrono::seconds(60));
    EXPECT_TRUE(load_state(*store) == state);
    store->compact(state);
    store->compact(state);
  }
  const auto store = place_.open();
  store->lead(std::chrono::seconds(60));
  EXPECT_TRUE(load_state(*store) == state);
}

TEST_P(StoreContract, OneLeadsAtATime) {
  auto first = place_.open();
  (void)lead_and_read(*first);
  {
    const auto second = place_.open();
    try {
      second->lead(std::chrono::milliseconds(1));
      ADD_FAILURE() << "two leaders";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
    }
  }
  first->append(story(0, 1));
  first.reset();
  EXPECT_EQ(reread(), story(0, 1));
}

TEST_P(StoreContract, NothingBeforeItsTime) {
  const auto store = place_.open();
  EXPECT_THROW((void)read_back(*store), Error);
  EXPECT_THROW(store->append(story(0, 1)), Error);
  store->lead(std::chrono::seconds(60));
  EXPECT_THROW(store->append(story(0, 1)), Error) << "before it was loaded";
  EXPECT_THROW(store->compact(ClusterState{}), Error);
}

TEST_P(StoreContract, AfterAFailureItRefuses) {
  {
    const auto store = place_.open();
    (void)lead_and_read(*store);
    store->append(story(0, 2));
    EXPECT_THROW(store->load([](Fact&&) { throw std::runtime_error("stop"); }), std::runtime_error);
    try {
      store->append(story(2, 1));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    }
  }
  EXPECT_EQ(reread(), story(0, 2));
}

TEST_P(StoreContract, ALivingClusterComesBack) {
  BalancedPolicy policy;
  Outbox out;
  auto store = place_.open();
  store->lead(std::chrono::seconds(60));
  auto reactor =
      std::make_unique<ServerReactor>(load_state(*store), policy, ServerOptions{}, Time{1}, out);
  Random random(3, "contract");
  for (int step = 0; step < 60; ++step) {
    SubmitRequest submit{RequestId{1}, {"ann", false}, {}};
    submit.spec.name = "t";
    submit.spec.required_gpus = static_cast<std::uint32_t>(random.below(3));
    submit.spec.array = static_cast<std::uint32_t>(random.below(4));
    reactor->handle(submit, Time{step}, out);
    if (step % 10 == 0) {
      HelloMessage hello;
      hello.spec.identity = std::to_string(step);
      hello.spec.devices = {{"0", "m", 8192}, {"1", "m", 8192}};
      reactor->handle(WorkerHello{RequestId{2}, hello}, Time{step}, out);
    }
    reactor->tick(Time{step}, out);
    store->append(out.facts);
    out.clear();
    if (step == 30) store->compact(reactor->state());
  }
  store.reset();
  store = place_.open();
  store->lead(std::chrono::seconds(60));
  EXPECT_TRUE(load_state(*store) == reactor->state());
}

std::vector<std::string> place_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : places()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, StoreContract, testing::ValuesIn(place_names()),
                         [](const auto& name) { return name.param; });

TEST(Store, CompactsWhenTheJournalOutgrowsTheSnapshot) {
  EXPECT_FALSE(should_compact({kMinJournalBytes, 0}));
  EXPECT_TRUE(should_compact({kMinJournalBytes + 1, 0}));
  EXPECT_FALSE(should_compact({3 * kMinJournalBytes, 2 * kMinJournalBytes}));
  EXPECT_TRUE(should_compact({5 * kMinJournalBytes, 2 * kMinJournalBytes}));
}

TEST(Store, IsChosenByItsAddress) {
  const auto store = open_store("memory:");
  EXPECT_TRUE(lead_and_read(*store).empty());
  try {
    (void)open_store("postgres://nobody@localhost:1/none?connect_timeout=2");
    ADD_FAILURE();
  } catch (const Error& error) {
#ifdef HARMONICS_HAS_STORE
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
#else
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
#endif
  }
}

}  // namespace
}  // namespace harmonics::inline in_store
