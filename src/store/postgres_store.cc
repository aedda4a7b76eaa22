#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "batches.h"
#include "guarded_store.h"
#include "postgres_store.h"

namespace harmonics::inline in_store {
namespace {

// The key of the advisory lock that the leader holds for as long as its connection lives.
constexpr std::int64_t kLeaderLock = 0x4841524d4f4e4943;  // "HARMONIC"
constexpr std::string_view kTimedOut = "57014";           // SQLSTATE query_canceled
constexpr int kRowsPerFetch = 16;
/// How long a look at the lock waits for it.
constexpr std::chrono::milliseconds kLookPeriod(500);
/// Between two tries to reach a database that went away.
constexpr std::chrono::milliseconds kRetryPause(200);

class Result {
 public:
  explicit Result(PGresult* handle) : handle_(handle) {}
  ~Result() { PQclear(handle_); }
  Result(Result&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Result& operator=(Result&&) = delete;

  [[nodiscard]] PGresult* handle() const { return handle_; }
  [[nodiscard]] int rows() const { return PQntuples(handle_); }
  [[nodiscard]] bool is_null(int row, int column) const {
    return PQgetisnull(handle_, row, column) == 1;
  }
  [[nodiscard]] ByteSpan bytes(int row, int column) const {
    return {reinterpret_cast<const std::byte*>(PQgetvalue(handle_, row, column)),
            static_cast<std::size_t>(PQgetlength(handle_, row, column))};
  }
  [[nodiscard]] std::int64_t number(int row, int column) const {
    std::uint64_t value = 0;
    const ByteSpan field = bytes(row, column);
    for (const std::byte byte : field) value = value << 8 | static_cast<std::uint64_t>(byte);
    return static_cast<std::int64_t>(value);
  }

 private:
  PGresult* handle_;
};

/// A bigint or bytea parameter, in PostgreSQL's binary form.
class Parameter {
 public:
  explicit Parameter(std::int64_t number)
      : number_(std::bit_cast<std::array<std::byte, 8>>(
            __builtin_bswap64(static_cast<std::uint64_t>(number)))) {}
  /// Looks at the bytes, which must outlive it.
  explicit Parameter(const Bytes& bytes) : bytes_(bytes), is_number_(false) {}

  [[nodiscard]] const std::byte* data() const {
    return is_number_ ? number_.data() : bytes_.data();
  }
  [[nodiscard]] std::size_t size() const { return is_number_ ? number_.size() : bytes_.size(); }

 private:
  std::array<std::byte, 8> number_{};
  ByteSpan bytes_{};
  bool is_number_ = true;
};

/// One connection. Whatever ends it is an `Error` of the kind kUnavailable: try another one.
class Connection {
 public:
  explicit Connection(const std::string& url) {
    // What a database that is gone without a word costs; the URL comes last and may say otherwise.
    const std::array<const char*, 7> keys{"connect_timeout",
                                          "keepalives_idle",
                                          "keepalives_interval",
                                          "keepalives_count",
                                          "tcp_user_timeout",
                                          "dbname",
                                          nullptr};
    const std::array<const char*, 7> values{"5", "5", "2", "3", "10000", url.c_str(), nullptr};
    handle_ = PQconnectdbParams(keys.data(), values.data(), /*expand_dbname=*/1);
    // Its warnings go to standard error otherwise; what matters comes as an error.
    PQsetNoticeProcessor(
        handle_, [](void*, const char*) {}, nullptr);
    if (PQstatus(handle_) == CONNECTION_OK) {
      name_ = format("postgres://{}:{}/{}", PQhost(handle_), PQport(handle_), PQdb(handle_));
      return;
    }
    const std::string reason = PQerrorMessage(handle_);
    PQfinish(handle_);
    fail(ErrorCode::kUnavailable, "store: PostgreSQL cannot be reached: {}", trimmed(reason));
  }
  ~Connection() { PQfinish(handle_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Host, port and database; never the password.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The number of the database's process for it.
  [[nodiscard]] int process() const { return PQbackendPID(handle_); }

  Result run(const char* sql, std::initializer_list<Parameter> parameters = {}) {
    std::vector<const char*> values;
    std::vector<int> lengths;
    const std::vector<int> formats(parameters.size(), 1);
    for (const Parameter& parameter : parameters) {
      values.push_back(reinterpret_cast<const char*>(parameter.data()));
      lengths.push_back(static_cast<int>(parameter.size()));
    }
    Result result(PQexecParams(handle_, sql, static_cast<int>(values.size()), nullptr,
                               values.data(), lengths.data(), formats.data(), 1));
    const ExecStatusType status = PQresultStatus(result.handle());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) broken(result, sql);
    return result;
  }

 private:
  /// The first line; libpq explains a cut connection in several.
  static std::string trimmed(const std::string& text) { return text.substr(0, text.find('\n')); }

  [[noreturn]] void broken(const Result& result, std::string_view sql) {
    const char* state = PQresultErrorField(result.handle(), PG_DIAG_SQLSTATE);
    const std::string_view code = state == nullptr ? "" : state;
    ErrorCode kind = ErrorCode::kUnknown;
    if (code == kTimedOut) kind = ErrorCode::kDeadlineExceeded;
    // Shut down by an administrator, crashed, or silent in a transaction for too long; without any
    // code it is libpq that speaks, and the connection is gone even where its status is still good.
    const bool ended = code.empty() || code.starts_with("57P") || code == "25P03";
    if (PQstatus(handle_) != CONNECTION_OK || ended) kind = ErrorCode::kUnavailable;
    if (code.starts_with("53")) kind = ErrorCode::kResourceExhausted;
    if (code == "42501") kind = ErrorCode::kPermissionDenied;
    fail(kind, "store '{}': {}: {}", name_, sql.substr(0, 60), trimmed(PQerrorMessage(handle_)));
  }

  PGconn* handle_ = nullptr;
  std::string name_;
};

// Who leads. An advisory lock tells the living from the dead at once: it goes with its connection.
// A lease beside it tells those that hang: whoever has not renewed it in time has its connection
// ended by the next. Every write proves by the lease's fence that nobody else has led since.
class PostgresStore final : public GuardedStore {
 public:
  PostgresStore(std::string url, const PostgresOptions& options)
      : url_(std::move(url)), options_(options) {
    connect();
  }
  ~PostgresStore() override {
    if (fence_ == 0 || !connection_) return;
    try {
      connection_->run("UPDATE harmonics_lease SET renewed = '-infinity' WHERE fence = $1::bigint",
                       {Parameter(fence_)});
    } catch (const Error&) {
      // Then the next one waits until it has run out.
    }
  }

  [[nodiscard]] Nanoseconds renew_every() const override { return options_.lease / 3; }

 protected:
  void do_lead(Nanoseconds timeout) override {
    const auto end = steady_clock::now() + timeout;
    while (true) {
      if (lock_within(std::min<Nanoseconds>(timeout, kLookPeriod))) {
        if (!former_leader_may_come()) break;
        connection_->run("SELECT pg_advisory_unlock($1::bigint)", {Parameter(kLeaderLock)});
        std::this_thread::sleep_for(kRetryPause);
      } else if (lease_is_over()) {
        end_leader();
        continue;
      }
      if (steady_clock::now() >= end) {
        fail(ErrorCode::kUnavailable, "store '{}': another server leads", connection_->name());
      }
    }
    migrate();
    const Result taken = connection_->run(
        "INSERT INTO harmonics_lease(one, fence, renewed, lease_ms) "
        "VALUES(true, 1, clock_timestamp(), $1::bigint) ON CONFLICT (one) DO UPDATE "
        "SET fence = harmonics_lease.fence + 1, renewed = clock_timestamp(), lease_ms = $1::bigint "
        "RETURNING fence",
        {Parameter(lease_ms())});
    fence_ = taken.number(0, 0);
  }

  void do_load(const std::function<void(Fact&&)>& visit) override {
    sizes_.snapshot_bytes = read(
        "SELECT part, facts, checksum FROM harmonics_snapshot WHERE part > $1::bigint "
        "ORDER BY part LIMIT 16",
        "snapshot part", visit);
    sizes_.journal_bytes = read(
        "SELECT batch, facts, checksum FROM harmonics_journal WHERE batch > $1::bigint "
        "ORDER BY batch LIMIT 16",
        "journal row", visit);
  }

  void do_append(std::span<const Fact> facts) override {
    std::vector<Bytes> rows;
    write_rows(facts, [&](const Bytes& row) { rows.push_back(row); });
    through_cuts([&](bool again) {
      // Cut off in the middle of it: it may be there, all of it or nothing.
      if (again && are_there(rows)) return;
      if (rows.empty()) return renew();
      if (rows.size() == 1) return insert(last_batch_ + 1, rows[0]);
      connection_->run("BEGIN");
      for (std::size_t i = 0; i < rows.size(); ++i) {
        insert(last_batch_ + 1 + static_cast<std::int64_t>(i), rows[i]);
      }
      connection_->run("COMMIT");
    });
    last_batch_ += static_cast<std::int64_t>(rows.size());
    for (const Bytes& row : rows) sizes_.journal_bytes += row.size();
  }

  void do_compact(const ClusterState& state) override {
    std::uint64_t bytes = 0;
    through_cuts([&](bool) {
      bytes = 0;
      std::int64_t part = 0;
      connection_->run("BEGIN");
      renew();
      connection_->run("DELETE FROM harmonics_journal");
      connection_->run("DELETE FROM harmonics_snapshot");
      write_rows(state, [&](const Bytes& row) {
        const std::int64_t checksum = checksum_of(row);
        connection_->run(
            "INSERT INTO harmonics_snapshot(part, facts, checksum) "
            "VALUES($1::bigint, $2::bytea, $3::bigint)",
            {Parameter(++part), Parameter(row), Parameter(checksum)});
        bytes += row.size();
      });
      renew();
      connection_->run("COMMIT");
    });
    sizes_ = {0, bytes};
  }

 private:
  using steady_clock = std::chrono::steady_clock;

  [[nodiscard]] std::int64_t lease_ms() const {
    return std::chrono::ceil<std::chrono::milliseconds>(options_.lease).count();
  }

  void connect() {
    connection_.reset();
    connection_ = std::make_unique<Connection>(url_);
    connection_->run("SET synchronous_commit TO on");
    connection_->run("SET client_min_messages TO warning");
    // A leader whose machine is gone without a word is noticed by the database within seconds, and
    // one that hangs in a transaction does not keep its locks.
    connection_->run("SET tcp_keepalives_idle TO 2");
    connection_->run("SET tcp_keepalives_interval TO 1");
    connection_->run("SET tcp_keepalives_count TO 3");
    connection_->run(format("SET idle_in_transaction_session_timeout TO {}", lease_ms()).c_str());
  }

  bool lock_within(Nanoseconds timeout) {
    const auto wanted = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    const auto milliseconds = std::clamp<std::int64_t>(wanted, 1, std::numeric_limits<int>::max());
    connection_->run(format("SET statement_timeout TO {}", milliseconds).c_str());
    bool got = true;
    try {
      connection_->run("SELECT pg_advisory_lock($1::bigint)", {Parameter(kLeaderLock)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDeadlineExceeded) throw;
      got = false;
    }
    connection_->run("SET statement_timeout TO 0");
    return got;
  }

  /// A condition on the row of the lease; false where there is none yet.
  bool lease_is(const char* condition) {
    const Result table =
        connection_->run("SELECT 1::bigint WHERE to_regclass('harmonics_lease') IS NOT NULL");
    if (table.rows() == 0) return false;
    return connection_->run(format("SELECT fence FROM harmonics_lease WHERE {}", condition).c_str())
               .rows() > 0;
  }

  /// Also whoever was cut off by a restart of the database has had its time.
  bool lease_is_over() {
    return lease_is(
        "greatest(renewed, pg_postmaster_start_time()) + lease_ms * interval '1 millisecond' < "
        "clock_timestamp()");
  }

  /// The database was restarted a moment ago, which has cut off whoever led: it goes first.
  bool former_leader_may_come() {
    return lease_is(
        "renewed > '-infinity' AND renewed < pg_postmaster_start_time() AND clock_timestamp() < "
        "pg_postmaster_start_time() + lease_ms * interval '1 millisecond'");
  }

  /// Ends the connection that holds the lock, if it is `process` (0: whichever).
  void end_leader(int process = 0) {
    log_warn("store", "store '{}': {}", connection_->name(),
             process == 0 ? "the server that leads has not been heard of in time: taking over"
                          : "ending this server's earlier connection");
    connection_->run(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND (classid::bigint << 32 | objid::bigint) = $1::bigint AND objsubid = 1 "
        "AND pid <> pg_backend_pid() AND ($2::bigint = 0 OR pid = $2::bigint)",
        {Parameter(kLeaderLock), Parameter(std::int64_t{process})});
  }

  [[noreturn]] void led_by_another() {
    fail(ErrorCode::kAborted,
         "store '{}': another server leads now; start this one again to wait "
         "for the next turn",
         connection_->name());
  }

  void renew() {
    const Result held = connection_->run(
        "UPDATE harmonics_lease SET renewed = clock_timestamp() WHERE fence = $1::bigint "
        "RETURNING fence",
        {Parameter(fence_)});
    if (held.rows() != 1) led_by_another();
  }

  void insert(std::int64_t batch, const Bytes& row) {
    const std::int64_t checksum = checksum_of(row);
    const Result added = connection_->run(
        "WITH held AS (UPDATE harmonics_lease SET renewed = clock_timestamp() "
        "WHERE fence = $4::bigint RETURNING fence) "
        "INSERT INTO harmonics_journal(batch, facts, checksum) "
        "SELECT $1::bigint, $2::bytea, $3::bigint FROM held RETURNING batch",
        {Parameter(batch), Parameter(row), Parameter(checksum), Parameter(fence_)});
    if (added.rows() != 1) led_by_another();
  }

  bool are_there(const std::vector<Bytes>& rows) {
    const std::int64_t before = last_batch_;
    const Result found = connection_->run(
        "SELECT count(*) FROM harmonics_journal WHERE batch > $1::bigint", {Parameter(before)});
    return !rows.empty() && found.number(0, 0) == static_cast<std::int64_t>(rows.size());
  }

  /// Runs `action`, and again (told so) on a new connection when the old one was cut: for as long
  /// as the options say, and only while nobody else has led.
  void through_cuts(const std::function<void(bool again)>& action) {
    std::optional<steady_clock::time_point> since;
    while (true) {
      try {
        if (since) come_back();
        action(since.has_value());
        if (since) log_warn("store", "the database is back, and this server still leads");
        return;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnavailable) throw;
        if (!since) {
          since = steady_clock::now();
          log_warn("store", "{}; trying again for up to {} s, nothing is answered meanwhile",
                   error.what(),
                   std::chrono::ceil<std::chrono::seconds>(options_.patience).count());
        }
        if (steady_clock::now() - *since >= options_.patience) throw;
        std::this_thread::sleep_for(kRetryPause);
      }
    }
  }

  void come_back() {
    const int former = connection_ ? connection_->process() : former_;
    former_ = former;
    connect();
    if (!lease_is(format("fence = {}", fence_).c_str())) led_by_another();
    if (lock_within(kLookPeriod)) return;
    end_leader(former);
    fail(ErrorCode::kUnavailable, "store '{}': the lock of its leader is not free yet",
         connection_->name());
  }

  void migrate() {
    connection_->run("BEGIN");
    connection_->run("CREATE TABLE IF NOT EXISTS harmonics_schema(version bigint NOT NULL)");
    const Result found = connection_->run("SELECT coalesce(max(version), 0) FROM harmonics_schema");
    const std::int64_t version = found.number(0, 0);
    if (version > kSchemaVersion) {
      fail(ErrorCode::kFailedPrecondition,
           "store '{}': has schema {}, this program knows up to {}; upgrade Harmonics",
           connection_->name(), version, kSchemaVersion);
    }
    if (version < 1) {
      connection_->run(
          "CREATE TABLE harmonics_snapshot(part bigint PRIMARY KEY, facts bytea NOT NULL)");
      connection_->run(
          "CREATE TABLE harmonics_journal(batch bigint PRIMARY KEY, facts bytea NOT NULL)");
    }
    if (version < 2) {
      connection_->run("ALTER TABLE harmonics_snapshot ADD COLUMN checksum bigint");
      connection_->run("ALTER TABLE harmonics_journal ADD COLUMN checksum bigint");
    }
    if (version < kSchemaVersion) {
      static_assert(kSchemaVersion == 6);
      connection_->run("DELETE FROM harmonics_schema");
      connection_->run("INSERT INTO harmonics_schema(version) VALUES(6)");
    }
    // No version of its own: servers that do not know it are kept apart by the lock alone.
    connection_->run(
        "CREATE TABLE IF NOT EXISTS harmonics_lease(one boolean PRIMARY KEY CHECK (one), "
        "fence bigint NOT NULL, renewed timestamptz NOT NULL, lease_ms bigint NOT NULL)");
    connection_->run("COMMIT");
  }

  std::uint64_t read(const char* sql, std::string_view what,
                     const std::function<void(Fact&&)>& visit) {
    std::uint64_t total = 0;
    std::int64_t last = 0;
    while (true) {
      const Result rows = connection_->run(sql, {Parameter(last)});
      renew();  // a long story takes longer to read than the lease lasts
      for (int row = 0; row < rows.rows(); ++row) {
        last = rows.number(row, 0);
        const std::int64_t checksum = rows.number(row, 2);
        read_row({rows.bytes(row, 1), rows.is_null(row, 2) ? nullptr : &checksum,
                  format("store '{}', {} {}", connection_->name(), what, last)},
                 visit);
        total += rows.bytes(row, 1).size();
      }
      if (rows.rows() < kRowsPerFetch) break;
    }
    last_batch_ = last;
    return total;
  }

  const std::string url_;
  const PostgresOptions options_;
  std::unique_ptr<Connection> connection_;
  int former_ = 0;               ///< The process of the last connection that was good.
  std::int64_t fence_ = 0;       ///< Of this store's time as leader; 0: it has not led.
  std::int64_t last_batch_ = 0;  ///< The journal's; it is read last.
};

}  // namespace

std::unique_ptr<Store> open_postgres_store_on(const std::string& url,
                                              const PostgresOptions& options) {
  return std::make_unique<PostgresStore>(url, options);
}

std::unique_ptr<Store> open_postgres_store(const std::string& url) {
  return open_postgres_store_on(url, {});
}

}  // namespace harmonics::inline in_store
