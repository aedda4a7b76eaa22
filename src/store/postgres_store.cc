#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <harmonics/base/error.h>

#include "batches.h"
#include "guarded_store.h"

namespace harmonics {
namespace {

// The leader holds this advisory lock for as long as its connection lives.
constexpr std::int64_t kLeaderLock = 0x4841524d4f4e4943;  // "HARMONIC"
constexpr std::string_view kTimedOut = "57014";           // SQLSTATE query_canceled
constexpr int kRowsPerFetch = 16;

/// A parameter or result in PostgreSQL's binary form.
std::array<char, 8> big_endian(std::int64_t value) {
  return std::bit_cast<std::array<char, 8>>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
}

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

/// A bigint or bytea parameter.
struct Parameter {
  ByteSpan bytes;
};

/// The store's one connection: leadership is its life.
class Connection {
 public:
  explicit Connection(const std::string& url) {
    handle_ = PQconnectdb(url.c_str());
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

  Result run(const char* sql, std::initializer_list<Parameter> parameters = {}) {
    std::vector<const char*> values;
    std::vector<int> lengths;
    const std::vector<int> formats(parameters.size(), 1);
    for (const Parameter& parameter : parameters) {
      values.push_back(reinterpret_cast<const char*>(parameter.bytes.data()));
      lengths.push_back(static_cast<int>(parameter.bytes.size()));
    }
    Result result(PQexecParams(handle_, sql, static_cast<int>(values.size()), nullptr,
                               values.data(), lengths.data(), formats.data(), 1));
    const ExecStatusType status = PQresultStatus(result.handle());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) broken(result, sql);
    return result;
  }

 private:
  static std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  }

  [[noreturn]] void broken(const Result& result, std::string_view sql) {
    const char* state = PQresultErrorField(result.handle(), PG_DIAG_SQLSTATE);
    const std::string_view code = state == nullptr ? "" : state;
    ErrorCode kind = ErrorCode::kUnknown;
    if (code == kTimedOut) kind = ErrorCode::kDeadlineExceeded;
    if (PQstatus(handle_) != CONNECTION_OK || code.starts_with("57P")) kind = ErrorCode::kAborted;
    if (code.starts_with("53")) kind = ErrorCode::kResourceExhausted;
    if (code == "42501") kind = ErrorCode::kPermissionDenied;
    fail(kind, "store '{}': {}: {}", name_, sql.substr(0, 60), trimmed(PQerrorMessage(handle_)));
  }

  PGconn* handle_ = nullptr;
  std::string name_;
};

class PostgresStore final : public GuardedStore {
 public:
  explicit PostgresStore(const std::string& url) : connection_(url) {
    connection_.run("SET synchronous_commit TO on");
    connection_.run("SET client_min_messages TO warning");
    // A leader whose machine is gone must lose its lock within seconds.
    connection_.run("SET tcp_keepalives_idle TO 2");
    connection_.run("SET tcp_keepalives_interval TO 1");
    connection_.run("SET tcp_keepalives_count TO 3");
  }

 protected:
  void do_lead(Nanoseconds timeout) override {
    const auto wanted = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    const auto milliseconds = std::clamp<std::int64_t>(wanted, 1, std::numeric_limits<int>::max());
    // A leader whose machine is gone without a word is noticed by the database after 15 seconds.
    connection_.run("SET tcp_keepalives_idle = 5");
    connection_.run("SET tcp_keepalives_interval = 2");
    connection_.run("SET tcp_keepalives_count = 5");
    connection_.run(format("SET statement_timeout TO {}", milliseconds).c_str());
    try {
      const auto key = big_endian(kLeaderLock);
      connection_.run("SELECT pg_advisory_lock($1::bigint)", {{std::as_bytes(std::span(key))}});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDeadlineExceeded) throw;
      fail(ErrorCode::kUnavailable, "store '{}': another server leads", connection_.name());
    }
    connection_.run("SET statement_timeout TO 0");
    migrate();
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
    if (rows.empty()) {
      connection_.run("SELECT 1");
    } else if (rows.size() == 1) {
      insert(rows[0]);
    } else {
      connection_.run("BEGIN");
      for (const Bytes& row : rows) insert(row);
      connection_.run("COMMIT");
    }
  }

  void do_compact(const ClusterState& state) override {
    std::uint64_t bytes = 0;
    std::int64_t part = 0;
    connection_.run("BEGIN");
    connection_.run("DELETE FROM harmonics_journal");
    connection_.run("DELETE FROM harmonics_snapshot");
    write_rows(state, [&](const Bytes& row) {
      put("INSERT INTO harmonics_snapshot(part, facts, checksum) VALUES($1::bigint, $2::bytea, "
          "$3::bigint)",
          ++part, row);
      bytes += row.size();
    });
    connection_.run("COMMIT");
    sizes_ = {0, bytes};
  }

 private:
  void migrate() {
    connection_.run("BEGIN");
    connection_.run("CREATE TABLE IF NOT EXISTS harmonics_schema(version bigint NOT NULL)");
    const Result found = connection_.run("SELECT coalesce(max(version), 0) FROM harmonics_schema");
    const std::int64_t version = found.number(0, 0);
    if (version > kSchemaVersion) {
      fail(ErrorCode::kFailedPrecondition,
           "store '{}': has schema {}, this program knows up to {}; upgrade Harmonics",
           connection_.name(), version, kSchemaVersion);
    }
    if (version < 1) {
      connection_.run(
          "CREATE TABLE harmonics_snapshot(part bigint PRIMARY KEY, facts bytea NOT NULL)");
      connection_.run(
          "CREATE TABLE harmonics_journal(batch bigint PRIMARY KEY, facts bytea NOT NULL)");
    }
    if (version < 2) {
      connection_.run("ALTER TABLE harmonics_snapshot ADD COLUMN checksum bigint");
      connection_.run("ALTER TABLE harmonics_journal ADD COLUMN checksum bigint");
    }
    if (version < kSchemaVersion) {
      static_assert(kSchemaVersion == 4);
      connection_.run("DELETE FROM harmonics_schema");
      connection_.run("INSERT INTO harmonics_schema(version) VALUES(4)");
    }
    connection_.run("COMMIT");
  }

  void put(const char* sql, std::int64_t key, const Bytes& row) {
    const auto number = big_endian(key);
    const auto checksum = big_endian(checksum_of(row));
    connection_.run(sql, {{std::as_bytes(std::span(number))},
                          {ByteSpan(row)},
                          {std::as_bytes(std::span(checksum))}});
  }

  void insert(const Bytes& row) {
    put("INSERT INTO harmonics_journal(batch, facts, checksum) VALUES($1::bigint, $2::bytea, "
        "$3::bigint)",
        ++last_batch_, row);
    sizes_.journal_bytes += row.size();
  }

  std::uint64_t read(const char* sql, std::string_view what,
                     const std::function<void(Fact&&)>& visit) {
    std::uint64_t total = 0;
    std::int64_t last = 0;
    while (true) {
      const auto after = big_endian(last);
      const Result rows = connection_.run(sql, {{std::as_bytes(std::span(after))}});
      for (int row = 0; row < rows.rows(); ++row) {
        last = rows.number(row, 0);
        const std::int64_t checksum = rows.number(row, 2);
        read_row({rows.bytes(row, 1), rows.is_null(row, 2) ? nullptr : &checksum,
                  format("store '{}', {} {}", connection_.name(), what, last)},
                 visit);
        total += rows.bytes(row, 1).size();
      }
      if (rows.rows() < kRowsPerFetch) break;
    }
    last_batch_ = last;
    return total;
  }

  Connection connection_;
  std::int64_t last_batch_ = 0;  ///< The journal's; it is read last.
};

}  // namespace

std::unique_ptr<Store> open_postgres_store(const std::string& url) {
  return std::make_unique<PostgresStore>(url);
}

}  // namespace harmonics
