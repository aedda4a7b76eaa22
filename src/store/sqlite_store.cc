#include "sqlite_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/log.h>

#include "batches.h"
#include "guarded_store.h"

namespace harmonics::inline in_store {
namespace {

constexpr int kApplicationId = 0x4841524d;  // "HARM": `file` and our own check know it by this.

ErrorCode code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_FULL: return ErrorCode::kResourceExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ErrorCode::kUnavailable;
    case SQLITE_READONLY:
    case SQLITE_PERM: return ErrorCode::kPermissionDenied;
    case SQLITE_CANTOPEN: return ErrorCode::kNotFound;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT: return ErrorCode::kDataLoss;
    default: return ErrorCode::kUnknown;
  }
}

/// One open database; turns every failure into an `Error` that names the file.
class Database {
 public:
  Database(const std::filesystem::path& file, const std::string& vfs) : file_(file.string()) {
    // Made here so that it, and the log that SQLite makes like it, are the owner's alone.
    if (vfs.empty()) {
      const Descriptor made(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    }
    const int result = sqlite3_open_v2(
        file_.c_str(), &handle_,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
        vfs.empty() ? nullptr : vfs.c_str());
    if (result == SQLITE_OK) return;
    const std::string reason = handle_ != nullptr ? sqlite3_errmsg(handle_) : "no memory";
    sqlite3_close_v2(handle_);
    fail(code_of(result), "store '{}': cannot be opened: {}; does its folder exist?", file_,
         reason);
  }
  ~Database() { sqlite3_close_v2(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] sqlite3* handle() const { return handle_; }

  [[noreturn]] void broken(int result, std::string_view doing) const {
    const std::string_view advice =
        (result & 0xff) == SQLITE_FULL ? "; free some space and start again" : "";
    fail(code_of(result), "store '{}': {}: {}{}", file_, doing, sqlite3_errmsg(handle_), advice);
  }
  void run(const char* sql) {
    const int result = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
    if (result != SQLITE_OK) broken(result, sql);
  }

 private:
  std::string file_;
  sqlite3* handle_ = nullptr;
};

/// One prepared statement.
class Statement {
 public:
  Statement(Database& database, const char* sql) : database_(database), sql_(sql) {
    const int result = sqlite3_prepare_v2(database.handle(), sql, -1, &handle_, nullptr);
    if (result != SQLITE_OK) database.broken(result, sql);
  }
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// True when there is a row.
  bool step() {
    const int result = sqlite3_step(handle_);
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) {
      sqlite3_reset(handle_);
      database_.broken(result, sql_);
    }
    return false;
  }
  void reset() { sqlite3_reset(handle_); }
  void bind(int index, std::int64_t value) { sqlite3_bind_int64(handle_, index, value); }
  void bind(int index, ByteSpan bytes) {
    sqlite3_bind_blob64(handle_, index, bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  [[nodiscard]] std::int64_t number(int column) { return sqlite3_column_int64(handle_, column); }
  [[nodiscard]] bool is_null(int column) {
    return sqlite3_column_type(handle_, column) == SQLITE_NULL;
  }
  [[nodiscard]] ByteSpan bytes(int column) {
    const void* data = sqlite3_column_blob(handle_, column);
    return {static_cast<const std::byte*>(data),
            static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
  }

 private:
  Database& database_;
  const char* sql_;
  sqlite3_stmt* handle_ = nullptr;
};

/// Rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database.run("BEGIN IMMEDIATE");
  }
  ~Transaction() {
    if (!done_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    database_.run("COMMIT");
    done_ = true;
  }

 private:
  Database& database_;
  bool done_ = false;
};

std::int64_t pragma(Database& database, const char* sql) {
  Statement statement(database, sql);
  return statement.step() ? statement.number(0) : 0;
}

/// Brings the tables to kSchemaVersion, step by step; each step is small enough for one commit.
void migrate(Database& database) {
  const std::int64_t application = pragma(database, "PRAGMA application_id");
  const std::int64_t version = pragma(database, "PRAGMA user_version");
  const std::int64_t tables = pragma(database, "SELECT count(*) FROM sqlite_master");
  if (application != kApplicationId && (application != 0 || tables != 0)) {
    fail(ErrorCode::kFailedPrecondition, "store '{}': is a database of another program",
         database.file());
  }
  if (version > kSchemaVersion) {
    fail(ErrorCode::kFailedPrecondition,
         "store '{}': has schema {}, this program knows up to {}; upgrade Harmonics",
         database.file(), version, kSchemaVersion);
  }
  if (version < 1) {
    database.run(
        "CREATE TABLE snapshot(part INTEGER PRIMARY KEY, facts BLOB NOT NULL);"
        "CREATE TABLE journal(batch INTEGER PRIMARY KEY, facts BLOB NOT NULL);"
        "PRAGMA application_id = 1212240461");
  }
  if (version < 2) {
    database.run(
        "ALTER TABLE snapshot ADD COLUMN checksum INTEGER;"
        "ALTER TABLE journal ADD COLUMN checksum INTEGER");
  }
  if (version < kSchemaVersion) database.run("PRAGMA user_version = 6");
}
static_assert(kApplicationId == 1212240461 && kSchemaVersion == 6);

/// Of the database, and of a write in the log (which has a header beside it).
constexpr std::size_t kPageBytes = 4096;
/// The log gets its size ahead of time only where so many times that is free.
constexpr std::size_t kRoomFactor = 16;

bool has_room(const std::string& file, std::size_t bytes) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(file, error).parent_path();
  const auto space = std::filesystem::space(folder, error);
  return !error && space.available / kRoomFactor >= bytes;
}

class SqliteStore final : public GuardedStore {
 public:
  SqliteStore(const std::filesystem::path& file, const SqliteOptions& options)
      : database_(file, options.vfs), log_bytes_(options.log_bytes) {}

 protected:
  void do_lead(Nanoseconds timeout) override {
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    sqlite3_busy_timeout(database_.handle(), static_cast<int>(std::min<std::int64_t>(
                                                 milliseconds, std::numeric_limits<int>::max())));
    try {
      // Exclusive: the first write takes the lock, and only closing gives it back.
      database_.run("PRAGMA locking_mode = EXCLUSIVE");
      database_.run("PRAGMA journal_mode = WAL");
      database_.run("PRAGMA synchronous = FULL");
      database_.run(format("PRAGMA wal_autocheckpoint = {}", log_bytes_ / kPageBytes).c_str());
      database_.run(format("PRAGMA journal_size_limit = {}", 2 * log_bytes_).c_str());
      Transaction transaction(database_);
      migrate(database_);
      transaction.commit();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      fail(ErrorCode::kUnavailable, "store '{}': another server uses it; end that one first",
           database_.file());
    }
  }

  void do_load(const std::function<void(Fact&&)>& visit) override {
    sizes_.snapshot_bytes =
        read("SELECT part, facts, checksum FROM snapshot ORDER BY part", "snapshot part", visit);
    sizes_.journal_bytes =
        read("SELECT batch, facts, checksum FROM journal ORDER BY batch", "journal row", visit);
    last_batch_ = pragma(database_, "SELECT max(batch) FROM journal");
  }

  // One statement is one commit; several rows (a very large batch) need a transaction around them.
  void do_append(std::span<const Fact> facts) override {
    std::vector<Bytes> rows;
    write_rows(facts, [&](const Bytes& row) { rows.push_back(row); });
    if (rows.empty()) return;
    reserve_log();
    if (rows.size() == 1) return insert(rows[0]);
    Transaction transaction(database_);
    for (const Bytes& row : rows) insert(row);
    transaction.commit();
  }

  void do_compact(const ClusterState& state) override {
    std::uint64_t bytes = 0;
    {
      Transaction transaction(database_);
      database_.run("DELETE FROM journal; DELETE FROM snapshot");
      Statement add(database_, "INSERT INTO snapshot(part, facts, checksum) VALUES(?1, ?2, ?3)");
      std::int64_t part = 0;
      write_rows(state, [&](const Bytes& row) {
        put(add, ++part, row);
        bytes += row.size();
      });
      transaction.commit();
    }
    database_.run("PRAGMA wal_checkpoint(RESTART)");  // the log keeps its size
    sizes_ = {0, bytes};
  }

 private:
  /// Makes the log as long as it will get, once. A sync costs a fraction where bytes are written
  /// over that a file has already: the file system has nothing to note about the file itself.
  void reserve_log() {
    if (std::exchange(reserved_, true) || !has_room(database_.file(), log_bytes_)) return;
    try {
      database_.run("DROP TABLE IF EXISTS room");  // of a server that was killed in here
      {
        Transaction transaction(database_);
        database_.run("CREATE TABLE room(zeros BLOB)");
        database_.run(format("INSERT INTO room VALUES(zeroblob({}))", log_bytes_).c_str());
        transaction.commit();
      }
      database_.run("PRAGMA wal_checkpoint(RESTART)");
      database_.run("DROP TABLE room");
    } catch (const Error& error) {  // a quota, say: then it grows bit by bit
      log_warn("store", "commits will be slower at first: {}", error.what());
      database_.run("PRAGMA wal_checkpoint(TRUNCATE)");
    }
  }

  static void put(Statement& statement, std::int64_t key, const Bytes& row) {
    statement.bind(1, key);
    statement.bind(2, ByteSpan(row));
    statement.bind(3, checksum_of(row));
    statement.step();
    statement.reset();
  }

  void insert(const Bytes& row) {
    if (!insert_) {
      insert_ = std::make_unique<Statement>(
          database_, "INSERT INTO journal(batch, facts, checksum) VALUES(?1, ?2, ?3)");
    }
    put(*insert_, ++last_batch_, row);
    sizes_.journal_bytes += row.size();
  }

  std::uint64_t read(const char* sql, std::string_view what,
                     const std::function<void(Fact&&)>& visit) {
    Statement rows(database_, sql);
    std::uint64_t total = 0;
    while (rows.step()) {
      const std::int64_t checksum = rows.number(2);
      const ByteSpan facts = rows.bytes(1);
      read_row({facts, rows.is_null(2) ? nullptr : &checksum,
                format("store '{}', {} {}", database_.file(), what, rows.number(0))},
               visit);
      total += facts.size();
    }
    return total;
  }

  Database database_;
  const std::size_t log_bytes_;
  bool reserved_ = false;
  std::unique_ptr<Statement> insert_;
  std::int64_t last_batch_ = 0;
};

}  // namespace

std::unique_ptr<Store> open_sqlite_store_on(const std::filesystem::path& file,
                                            const SqliteOptions& options) {
  return std::make_unique<SqliteStore>(file, options);
}

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& file) {
  return open_sqlite_store_on(file, {});
}

}  // namespace harmonics::inline in_store
