#include <harmonics/clients/access.h>

#include <sys/stat.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/server/certificates.h>
#include <harmonics/server/client_file.h>
#include <harmonics/server/state_folder.h>

namespace harmonics::inline in_clients {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kDefaultScheduler = "localhost:50051";
/// Between two looks for a token.
constexpr milliseconds kLookPeriod(50);

bool is_there(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/// The token in a folder of 'server --init': what one may do most with, of those that are there.
fs::path token_of_folder(const fs::path& folder, bool works) {
  if (works) return folder / "worker.token";
  for (const char* name : {"admin.token", "submit.token", "view.token"}) {
    if (is_there(folder / name)) return folder / name;
  }
  fail(ErrorCode::kNotFound,
       "there is no token in '{}' (admin.token, submit.token or view.token): copy yours from where "
       "'harmonics server --init' made it, or name it with --token-file",
       folder.string());
}

/// What a worker's own door shows has to be there before somebody misses its logs.
void check_door(const fs::path& folder) {
  const fs::path certificate = folder / "worker.pem";
  if (is_there(folder / "peer.pem") || certificate_serves(certificate)) return;
  fail(ErrorCode::kNotFound,
       "'{}' has no peer.pem, peer.key and peers.pem, by which the server reads what tasks print: "
       "copy all of the machine's folder, or those three files",
       folder.string());
}

/// Says once that something is waited for.
class WaitingLine {
 public:
  explicit WaitingLine(std::function<void(const std::string&)> listener = {})
      : listener_(std::move(listener)) {}

  void say(const std::string& text) {
    if (std::exchange(said_, true)) return;
    if (listener_) return listener_(text);
    write_text(TextStream::kError, text + "\n");
  }

 private:
  const std::function<void(const std::string&)> listener_;
  bool said_ = false;
};

milliseconds patience_of(const ServerAccess& access) {
  return milliseconds(static_cast<std::int64_t>(access.patience_s * 1000));
}

/// The token of the server's state folder, once it is there. Nothing: `go_on` said no.
std::optional<std::string> await_token(const fs::path& file, const std::function<bool()>& go_on) {
  while (!is_there(file)) {
    if (!go_on()) return std::nullopt;
    std::this_thread::sleep_for(kLookPeriod);
  }
  return read_token_file(file);
}

/// The folder that is named for TLS may have one, as those of 'server --init' do; else the user's.
/// Empty: there is none.
fs::path client_file_of(const ServerAccess& access) {
  if (!access.tls.empty() && is_there(access.tls / "client.yml")) return access.tls / "client.yml";
  const fs::path own = default_client_file();
  return !own.empty() && is_there(own) ? own : fs::path();
}

/// What the user's own file would have said, were it of this server; empty: nothing.
std::string left_out_text(const ServerAccess& access) {
  const fs::path path = client_file_of(access);
  if (path.empty() || !access.tls.empty() || !access.token_file.empty()) return {};
  const ClientFile file = read_client_file(path);
  const bool other = !file.scheduler.empty() && file.scheduler != access.scheduler;
  if (!other || (file.tls.empty() && file.token_file.empty())) return {};
  return format(
      " ('{}' is of {}, so its certificates and token do not count here: if they are this server's "
      "too, say so with --tls {})",
      path.string(), file.scheduler, path.parent_path().string());
}

/// All but what depends on how patient one is; `token` is left empty where a server still has to
/// make it.
ClientOptions options_of(const ServerAccess& access, bool works) {
  ClientOptions options;
  options.server = access.scheduler;
  static_cast<void>(server_addresses(access.scheduler));  // what is wrong with it is said at once
  options.tls = tls_files(access.tls, works ? "worker" : "client");
  if (!access.token_file.empty()) {
    options.token = read_token_file(access.token_file);
  } else if (!access.tls.empty()) {
    options.token = read_token_file(token_of_folder(access.tls, works));
  }
  return options;
}

}  // namespace

fs::path state_folder(const fs::path& given) {
  return fs::absolute(given.empty() ? default_state_folder() : given);
}

std::optional<TlsFiles> tls_files(const fs::path& folder, const std::string& role) {
  if (folder.empty()) return std::nullopt;
  return TlsFiles{folder / "ca.pem",      folder / (role + ".pem"), folder / (role + ".key"),
                  folder / "revoked.pem", folder / "peers.pem",     folder / "peer.pem",
                  folder / "peer.key"};
}

ServerAccess resolve_access(const ServerAccess& flags) {
  ServerAccess access = flags;
  if (access.scheduler.empty()) access.scheduler = environment_text("HARMONICS_SCHEDULER");
  if (access.tls.empty()) access.tls = environment_text("HARMONICS_TLS");
  if (access.token_file.empty()) access.token_file = environment_text("HARMONICS_TOKEN_FILE");
  const fs::path path = client_file_of(access);
  if (!path.empty()) {
    const ClientFile file = read_client_file(path);
    if (access.scheduler.empty()) access.scheduler = file.scheduler;
    if (access.scheduler == file.scheduler || file.scheduler.empty()) {
      if (access.tls.empty()) access.tls = file.tls;
      if (access.token_file.empty()) access.token_file = file.token_file;
    }
  }
  if (access.scheduler.empty()) access.scheduler = kDefaultScheduler;
  return access;
}

ClientOptions client_options(const ServerAccess& flags, const ClientPatience& waiting) {
  const ServerAccess access = resolve_access(flags);
  ClientOptions options = options_of(access, /*works=*/false);
  const auto end = Steady::now() + patience_of(access);
  const auto line = std::make_shared<WaitingLine>(waiting.say);
  options.interrupted = waiting.interrupted;
  if (options.token.empty()) {
    const fs::path file = state_folder(access.state_dir) / "token";
    const auto token = await_token(file, [&] {
      if (Steady::now() >= end) return false;
      if (waiting.interrupted && waiting.interrupted()) {
        fail(ErrorCode::kCancelled, "interrupted while no server had made a token");
      }
      line->say(format("no server has made the token '{}' yet: waiting up to {} s for one",
                       file.string(), access.patience_s));
      return true;
    });
    if (!token) {
      fail(ErrorCode::kUnavailable,
           "no server was found for {}: none has made the token '{}', which it does on its first "
           "start; start one with 'harmonics server', or say which one you mean with --scheduler "
           "and --token-file or --tls{}",
           access.scheduler, file.string(), left_out_text(access));
    }
    options.token = *token;
  }
  options.patience =
      std::max(std::chrono::ceil<milliseconds>(end - Steady::now()), milliseconds(0));
  options.on_wait = [line, server = access.scheduler, patience = access.patience_s] {
    line->say(format("no server answers at {} yet: waiting up to {} s for one", server, patience));
  };
  return options;
}

ClientOptions worker_options(const ServerAccess& flags, const std::function<bool()>& go_on) {
  const ServerAccess access = resolve_access(flags);
  if (!access.tls.empty()) check_door(access.tls);
  ClientOptions options = options_of(access, /*works=*/true);
  if (!options.token.empty()) return options;
  const fs::path file = state_folder(access.state_dir) / "token";
  WaitingLine line;
  const auto token = await_token(file, [&] {
    line.say(
        format("no server has made the token '{}' yet: waiting until there is one", file.string()));
    return go_on();
  });
  if (!token) fail(ErrorCode::kCancelled, "stopped while no server had made a token");
  options.token = *token;
  return options;
}

}  // namespace harmonics::inline in_clients
