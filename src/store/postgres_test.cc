// What only PostgreSQL has: a leader that is cut off, another that takes over.
#include <thread>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "facts_testing.h"
#include "postgres_store.h"
#include "postgres_testing.h"

namespace harmonics::inline in_store {
namespace {

/// One server for all of them, a database for each.
class Postgres : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = TestPostgres::start(why_not_); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << why_not_;
    server_->start_again();
    url_ = server_->make_database();
  }
  static inline std::unique_ptr<TestPostgres> server_;
  static inline std::string why_not_;
  std::string url_;
};

TEST_F(Postgres, TheNextServerLeadsWhenTheFirstIsGone) {
  auto first = open_postgres_store(url_);
  (void)lead_and_read(*first);
  first->append(story(0, 4));
  std::vector<Fact> seen;
  std::thread next([&] {
    const auto second = open_postgres_store(url_);
    seen = lead_and_read(*second);  // Waits for the lock.
    second->append(story(5, 1));
  });
  first->append(story(4, 1));
  first.reset();
  next.join();
  EXPECT_EQ(seen, story(0, 5)) << "all that the first had written, nothing else";
}

TEST_F(Postgres, ALeaderThatWasReplacedFindsOutBeforeItAnswers) {
  const auto first = open_postgres_store(url_);
  (void)lead_and_read(*first);
  first->append(story(0, 1));
  server_->cut_connections(url_);
  const auto second = open_postgres_store(url_);
  EXPECT_EQ(lead_and_read(*second), story(0, 1));
  try {
    first->append({});
    ADD_FAILURE() << "an empty append checks that it leads";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted) << error.what();
  }
  second->append(story(1, 1));
  EXPECT_EQ(read_back(*second), story(0, 2)) << "nothing of the first one came later";
}

TEST_F(Postgres, ALeaderThatIsOnlyCutOffGoesOn) {
  const auto store = open_postgres_store(url_);
  (void)lead_and_read(*store);
  for (std::uint64_t i = 0; i < 5; ++i) {
    store->append(story(i, 1));
    server_->cut_connections(url_);
  }
  store->append({});
  EXPECT_EQ(read_back(*store), story(0, 5)) << "each once";
}

TEST_F(Postgres, ALeaderThatHangsIsReplacedAndWritesNothingMore) {
  PostgresOptions options;
  options.lease = std::chrono::milliseconds(300);
  const auto hung = open_postgres_store_on(url_, options);
  (void)lead_and_read(*hung);
  hung->append(story(0, 2));
  // Its connection lives and holds the lock; only its lease runs out.
  const auto next = open_postgres_store_on(url_, options);
  EXPECT_EQ(lead_and_read(*next), story(0, 2));
  next->append(story(2, 1));
  for (const bool facts : {true, false}) {
    try {
      hung->append(facts ? story(2, 2) : std::vector<Fact>{});
      ADD_FAILURE() << "two leaders";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), facts ? ErrorCode::kAborted : ErrorCode::kFailedPrecondition)
          << error.what();
    }
  }
  next->append(story(3, 1));
  EXPECT_EQ(read_back(*next), story(0, 4));
}

TEST_F(Postgres, ALeaderThatRenewsInTimeIsLeftAlone) {
  PostgresOptions options;
  options.lease = std::chrono::seconds(60);
  const auto first = open_postgres_store_on(url_, options);
  (void)lead_and_read(*first);
  EXPECT_LE(first->renew_every(), options.lease / 2);
  const auto second = open_postgres_store_on(url_, options);
  EXPECT_THROW(second->lead(std::chrono::seconds(1)), Error);
  first->append(story(0, 1));
}

TEST_F(Postgres, ALeaderSurvivesARestartOfTheDatabase) {
  const auto store = open_postgres_store(url_);
  (void)lead_and_read(*store);
  store->append(story(0, 1));
  server_->stop();
  std::string problem;
  std::thread leader([&] {
    try {
      store->append(story(1, 3));
    } catch (const Error& error) {
      problem = error.what();
    }
  });
  server_->start_again();
  leader.join();
  ASSERT_EQ(problem, "");
  ClusterState state;
  for (const Fact& fact : story(0, 4)) state.apply(fact);
  server_->stop();
  server_->start_again();
  store->compact(state);
  store->append(story(4, 1));
  // Whoever else waits lets it come back first.
  server_->stop();
  server_->start_again();
  const auto other = open_postgres_store(url_);
  EXPECT_THROW(other->lead(std::chrono::milliseconds(1)), Error);
  store->append(story(5, 1));
  for (const Fact& fact : story(4, 2)) state.apply(fact);
  EXPECT_TRUE(load_state(*store) == state);
}

TEST_F(Postgres, ADatabaseThatStaysAwayIsAnErrorWithoutThePassword) {
  PostgresOptions options;
  options.patience = std::chrono::milliseconds(500);
  const auto first = open_postgres_store_on(url_ + "&password=secret", options);
  (void)lead_and_read(*first);
  server_->stop();
  LogCapture log;
  try {
    first->append(story(0, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
  ASSERT_EQ(log.lines().size(), 1U) << "announced once";
  EXPECT_NE(log.lines()[0].find("trying again for up to 1 s"), std::string::npos) << log.lines()[0];
  EXPECT_EQ(log.lines()[0].find("secret"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_store
