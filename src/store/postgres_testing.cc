#include "postgres_testing.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_store {
namespace {

std::filesystem::path find_programs() {
  const std::filesystem::path root = "/usr/lib/postgresql";
  if (!std::filesystem::exists(root)) return {};
  for (const auto& version : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::exists(version.path() / "bin/postgres")) return version.path() / "bin";
  }
  return {};
}

/// Starts a program as postgres (if this is root), its output going to `out`. It dies with us.
pid_t spawn(const std::vector<std::string>& words, const passwd* user, int out) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail_errno(errno, "fork");
  if (child > 0) return child;
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (user != nullptr && (::setgid(user->pw_gid) != 0 || ::setuid(user->pw_uid) != 0)) ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (::chdir("/") != 0) ::_exit(126);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

/// Reads until `word` was seen or the writer is gone.
std::string read_until(int pipe, std::string_view word) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.find(word) == text.npos) {
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

std::unique_ptr<TestPostgres> TestPostgres::start(std::string& why_not) {
  const std::filesystem::path programs = find_programs();
  const passwd* user = ::geteuid() == 0 ? ::getpwnam("postgres") : nullptr;
  if (programs.empty() || (::geteuid() == 0 && user == nullptr)) {
    why_not = "PostgreSQL is not installed here (Debian: postgresql)";
    return nullptr;
  }
  auto postgres = std::unique_ptr<TestPostgres>(new TestPostgres());
  const std::filesystem::path& folder = postgres->folder_;
  if (user != nullptr && ::chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0) {
    fail_errno(errno, "chown " + folder.string());
  }
  const std::string data = (folder / "data").string();
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const pid_t init = spawn({(programs / "initdb").string(), "-D", data, "-U", "postgres", "-A",
                            "trust", "--no-sync", "--no-instructions"},
                           user, nowhere);
  ::close(nowhere);
  int status = 0;
  ::waitpid(init, &status, 0);
  if (status != 0) fail(ErrorCode::kInternal, "initdb failed with status {}", status);
  postgres->launch();
  return postgres;
}

void TestPostgres::launch() {
  const passwd* user = ::geteuid() == 0 ? ::getpwnam("postgres") : nullptr;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) fail_errno(errno, "pipe");
  process_ = spawn({(find_programs() / "postgres").string(), "-D", (folder_ / "data").string(),
                    "-k", folder_.path().string(), "-c", "listen_addresses=", "-c", "fsync=off",
                    "-c", "max_connections=20"},
                   user, pipe[1]);
  ::close(pipe[1]);
  const std::string said = read_until(pipe[0], "ready to accept connections");
  // The server goes on writing a line here and there into the pipe, which must stay open.
  if (said.find("ready to accept connections") == said.npos) {
    fail(ErrorCode::kInternal, "postgres did not start: {}", said);
  }
}

void TestPostgres::stop() {
  if (process_ < 0) return;
  ::kill(process_, SIGQUIT);
  ::waitpid(std::exchange(process_, -1), nullptr, 0);
}

void TestPostgres::start_again() {
  if (process_ < 0) launch();
}

TestPostgres::~TestPostgres() { stop(); }

void TestPostgres::run_sql(const std::string& sql) {
  PGconn* connection =
      PQconnectdb(format("host={} user=postgres dbname=postgres", folder_.path().string()).c_str());
  PGresult* result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  const std::string reason = PQerrorMessage(connection);
  PQclear(result);
  PQfinish(connection);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    fail(ErrorCode::kInternal, "{}: {}", sql, reason);
  }
}

std::string TestPostgres::make_database() {
  const std::string name = format("test{}", ++databases_);
  run_sql("CREATE DATABASE " + name);
  return format("postgresql:///{}?host={}&user=postgres", name, folder_.path().string());
}

void TestPostgres::cut_connections(const std::string& url) {
  const std::string name = url.substr(14, url.find('?') - 14);
  run_sql(
      format("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", name));
}

}  // namespace harmonics::inline in_store
