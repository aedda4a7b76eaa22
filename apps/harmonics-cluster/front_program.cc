#include "front_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>

#include "access.h"

namespace harmonics::inline in_cluster_program {
namespace {

std::string front_program() { return (program_folder() / "harmonics").string(); }

/// Points into both arguments.
std::vector<char*> arguments(std::string& program, const std::vector<std::string>& words) {
  std::vector<char*> argv = {program.data()};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

}  // namespace

std::vector<std::string> gang_hosts(const std::string& peers) {
  std::vector<std::string> hosts;
  std::istringstream list(peers);
  for (std::string peer; std::getline(list, peer, ',');) {
    const std::size_t equals = peer.rfind('=');
    const std::size_t colon = peer.rfind(':');
    if (equals == peer.npos || colon == peer.npos || colon < equals) {
      fail(ErrorCode::kInvalidArgument, "HARMONICS_GANG_PEERS: '{}' is no NAME=HOST:PORT", peer);
    }
    hosts.push_back(peer.substr(equals + 1, colon - equals - 1));
  }
  return hosts;
}

void announce(const std::vector<std::string>& words) {
  std::string line = "harmonics";
  for (const std::string& word : words) line += " " + word;
  write_text(TextStream::kError, line + "\n");
}

void become_front(const std::vector<std::string>& words) {
  std::string program = front_program();
  ::execv(program.c_str(), arguments(program, words).data());
  fail_errno(errno, format("cannot start '{}'", program));
}

int run_front(const std::vector<std::string>& words, const std::filesystem::path& file) {
  std::string program = front_program();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, file.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                  arguments(program, words).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail_errno(error, format("cannot start '{}'", program));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
}

}  // namespace harmonics::inline in_cluster_program
