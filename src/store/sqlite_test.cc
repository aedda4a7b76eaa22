// What only SQLite has: one file, its versions and its accidents.
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/cluster/fact_codec.h>

#include <temporary_folder_testing.h>

#include "batches.h"
#include "facts_testing.h"
#include "sqlite_store.h"

namespace harmonics::inline in_store {
namespace {

class Sqlite : public testing::Test {
 protected:
  void run_sql(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message;
    sqlite3_close(database);
  }
  void write(const std::vector<Fact>& facts) const {
    const auto store = open_sqlite_store(file_);
    (void)lead_and_read(*store);
    store->append(facts);
  }
  [[nodiscard]] std::vector<Fact> reread(const std::filesystem::path& file) const {
    const auto store = open_sqlite_store(file);
    return lead_and_read(*store);
  }
  ErrorCode failure(const std::function<void()>& action, std::string_view word) const {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos) << error.what();
      return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::kUnknown;
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "cluster.db";
};

TEST_F(Sqlite, TheFileIsItsOwnersAlone) {
  write(story(0, 1));
  struct stat status {};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(Sqlite, TablesOfTheFirstVersionAreBroughtUp) {
  FactWriter writer;
  for (const Fact& fact : story(0, 4)) writer.add(fact);
  run_sql(
      "PRAGMA application_id = 1212240461; PRAGMA user_version = 1;"
      "CREATE TABLE snapshot(part INTEGER PRIMARY KEY, facts BLOB NOT NULL);"
      "CREATE TABLE journal(batch INTEGER PRIMARY KEY, facts BLOB NOT NULL);"
      "INSERT INTO journal VALUES(1, x'" +
      to_hex(writer.take()) + "')");
  {
    const auto store = open_sqlite_store(file_);
    EXPECT_EQ(lead_and_read(*store), story(0, 4));
    store->append(story(4, 2));
  }
  EXPECT_EQ(reread(file_), story(0, 6));
}

TEST_F(Sqlite, TablesOfALaterVersionAreRefused) {
  write(story(0, 1));
  run_sql("PRAGMA user_version = 99");
  EXPECT_EQ(failure([&] { (void)reread(file_); }, "upgrade"), ErrorCode::kFailedPrecondition);
}

TEST_F(Sqlite, AnotherProgramsFileIsRefused) {
  run_sql("CREATE TABLE mine(x); INSERT INTO mine VALUES(1)");
  EXPECT_EQ(failure([&] { (void)reread(file_); }, "another program"),
            ErrorCode::kFailedPrecondition);
  write_text_file(folder_ / "text", std::string(5000, 'x'));
  EXPECT_EQ(failure([&] { (void)reread(folder_ / "text"); }, "text"), ErrorCode::kDataLoss);
}

TEST_F(Sqlite, AMissingFolderIsNamed) {
  EXPECT_EQ(failure([&] { (void)reread(folder_ / "none" / "x.db"); }, "folder"),
            ErrorCode::kNotFound);
}

TEST_F(Sqlite, ADamagedRowIsNamed) {
  write(story(0, 2));
  run_sql("UPDATE journal SET facts = zeroblob(length(facts))");
  EXPECT_EQ(failure([&] { (void)reread(file_); }, "journal row 1"), ErrorCode::kDataLoss);
}

// The log is cut at every length, as a torn last write would: whole batches, in order, are left.
TEST_F(Sqlite, ATornLogGivesWholeBatches) {
  constexpr std::uint64_t kBatches = 5;
  const auto store = open_sqlite_store_on(file_, {"", 64 << 10});
  (void)lead_and_read(*store);
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) store->append(story(batch * 3, 3));
  const std::string log = read_text_file(file_.string() + "-wal");
  const std::filesystem::path copy = folder_ / "copy.db";
  std::size_t most = 0;
  for (std::size_t length = 0; length <= log.size(); length += 509) {
    std::filesystem::copy_file(file_, copy, std::filesystem::copy_options::overwrite_existing);
    std::ofstream(copy.string() + "-wal", std::ios::binary) << log.substr(0, length);
    const std::vector<Fact> facts = reread(copy);
    EXPECT_EQ(facts, story(0, facts.size()));
    EXPECT_EQ(facts.size() % 3, 0U);
    EXPECT_GE(facts.size(), most);
    most = facts.size();
    std::filesystem::remove(copy.string() + "-wal");
  }
  EXPECT_GE(most, 3 * (kBatches - 1));
}

TEST_F(Sqlite, TheLogHasItsSizeFromTheFirstCommitOn) {
  constexpr std::size_t kLogBytes = 64 << 10;
  const auto store = open_sqlite_store_on(file_, {"", kLogBytes});
  (void)lead_and_read(*store);
  const auto log_bytes = [&] { return std::filesystem::file_size(file_.string() + "-wal"); };
  store->append(story(0, 1));
  const std::uintmax_t first = log_bytes();
  EXPECT_GE(first, kLogBytes);
  for (std::uint64_t batch = 1; batch < 200; ++batch) store->append(story(batch, 1, 1000));
  EXPECT_EQ(log_bytes(), first);
  store->compact(ClusterState());
  store->append(story(200, 1));
  EXPECT_GE(log_bytes(), kLogBytes);
  EXPECT_LE(log_bytes(), 2 * kLogBytes) << "compaction may lengthen it for a moment";
}

/// Files of this process may grow to so many bytes while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST_F(Sqlite, AFullDiskIsAnErrorAndLosesNothing) {
  std::uint64_t stored = 0;
  {
    const auto store = open_sqlite_store(file_);
    (void)lead_and_read(*store);
    const FileSizeLimit limit(256 << 10);
    EXPECT_THROW(
        {
          for (; stored < 1000; stored += 4) store->append(story(stored, 4, 4000));
        },
        Error);
    EXPECT_EQ(failure([&] { store->append(story(stored, 1)); }, "anew"),
              ErrorCode::kFailedPrecondition);
  }
  EXPECT_GT(stored, 0U);
  const std::vector<Fact> facts = reread(file_);
  EXPECT_GE(facts.size(), stored);
  EXPECT_EQ(facts, story(0, facts.size(), 4000));
}

}  // namespace
}  // namespace harmonics::inline in_store
