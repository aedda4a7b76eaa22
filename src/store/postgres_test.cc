// What only PostgreSQL has: a leader that is cut off, another that takes over.
#include <thread>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "facts_testing.h"
#include "postgres_testing.h"

namespace harmonics {
namespace {

class Postgres : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    server_ = TestPostgres::start(why_not);
    if (server_ == nullptr) GTEST_SKIP() << why_not;
    url_ = server_->make_database();
  }
  std::unique_ptr<TestPostgres> server_;
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

TEST_F(Postgres, ALeaderThatIsCutOffFindsOutBeforeItAnswers) {
  const auto first = open_postgres_store(url_);
  (void)lead_and_read(*first);
  first->append({});
  server_->cut_connections(url_);
  EXPECT_THROW(first->append({}), Error) << "an empty append checks that it leads";
  const auto second = open_postgres_store(url_);
  EXPECT_TRUE(lead_and_read(*second).empty());
  second->append(story(0, 1));
}

TEST_F(Postgres, ErrorsNameNoPassword) {
  const std::string with_password = url_ + "&password=secret";
  const auto first = open_postgres_store(with_password);
  (void)lead_and_read(*first);
  server_->cut_connections(url_);
  try {
    first->append(story(0, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace harmonics
