// A PostgreSQL server of the test's own, in a temporary folder, reached through a socket there.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_store {

/// Runs until it is destroyed (or the test dies). Root starts it as the user postgres.
class TestPostgres {
 public:
  /// Null, with the reason, where PostgreSQL is not installed.
  static std::unique_ptr<TestPostgres> start(std::string& why_not);
  ~TestPostgres();
  TestPostgres(const TestPostgres&) = delete;
  TestPostgres& operator=(const TestPostgres&) = delete;

  /// The URL of a fresh database.
  [[nodiscard]] std::string make_database();
  /// Ends every connection to that database, as a cut network would.
  void cut_connections(const std::string& url);
  /// Ends the server; starts it again where it was, if it was ended.
  void stop();
  void start_again();

 private:
  TestPostgres() = default;

  void run_sql(const std::string& sql);
  void launch();

  TemporaryFolder folder_;
  pid_t process_ = -1;
  int databases_ = 0;
};

}  // namespace harmonics::inline in_store
