#include "torch_program.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <harmonics/base/error.h>

namespace harmonics::inline in_front {
namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 10;

[[noreturn]] void fail_to_start(int reason) {
  const std::string program = torch_program().string();
  if (reason == ENOENT) {
    fail(ErrorCode::kNotFound,
         "this command needs '{}', which is not there: build with HARMONICS_WITH_TORCH=ON (and "
         "libtorch installed), or install it beside this program",
         program);
  }
  fail_errno(reason, format("cannot start '{}'", program));
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() <= kMaxAnswerBytes) {
    const ssize_t got = ::read(descriptor, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

// The exit status of a child, or -1 when it did not end by itself.
int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::filesystem::path torch_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail_errno(error.value(), "cannot find the folder of this program (/proc/self/exe)");
  return self.parent_path() / "harmonics-torch";
}

void become_torch_program(char** argv) {
  const std::string program = torch_program().string();
  // It takes a moment to load and cannot answer signals meanwhile: they wait for it.
  sigset_t interrupts;
  ::sigemptyset(&interrupts);
  ::sigaddset(&interrupts, SIGINT);
  ::sigaddset(&interrupts, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &interrupts, nullptr);
  ::execv(program.c_str(), argv);
  fail_to_start(errno);
}

std::string ask_torch_program(const std::string& flag) {
  std::string program = torch_program().string();
  std::string argument = flag;
  std::array<char*, 3> argv = {program.data(), argument.data(), nullptr};
  std::array<int, 2> pipe_ends;
  if (::pipe(pipe_ends.data()) != 0) fail_errno(errno, "cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  ::posix_spawn_file_actions_addclose(&actions, pipe_ends[1]);
  pid_t child = 0;
  const int failure =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  const std::string answer = failure == 0 ? read_all(pipe_ends[0]) : std::string();
  ::close(pipe_ends[0]);
  if (failure != 0) fail_to_start(failure);
  if (wait_for(child) != 0 || answer.size() > kMaxAnswerBytes) {
    fail(ErrorCode::kInternal, "'{} {}' failed: run it by hand to see why", program, flag);
  }
  return answer;
}

}  // namespace harmonics::inline in_front
