#include "stage_children.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/subprocess.h>

namespace harmonics::inline in_text_program {

void StageChildren::start(const std::vector<std::string>& words, const std::string& token) {
  std::vector<std::string> variables = {format("HARMONICS_TOKEN={}", token),
                                        format("{}={}", kStageParent, ::getpid())};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    if (variable.starts_with("HARMONICS_TOKEN=") || variable.starts_with(kStageParent)) continue;
    variables.push_back(variable);
  }
  std::vector<std::string> all = {"harmonics-text"};
  all.insert(all.end(), words.begin(), words.end());
  children_.push_back(ProgramStart("/proc/self/exe", all)
                          .environment(std::move(variables))
                          .own_group()
                          .mute(STDIN_FILENO)
                          .mute(STDOUT_FILENO)
                          .start());
}

void StageChildren::clear() {
  for (const pid_t child : children_) kill_program(child);
  children_.clear();
}

void StageChildren::check() {
  std::string ended;
  for (std::size_t part = 0; part < children_.size(); ++part) {
    if (children_[part] < 0) continue;  // told of before
    const std::optional<int> status = ended_program(children_[part]);
    if (!status) continue;
    children_[part] = -1;
    if (WIFSIGNALED(*status)) {
      fail(ErrorCode::kUnavailable, "part {} of the model was killed by signal {} ({})", part,
           WTERMSIG(*status), ::strsignal(WTERMSIG(*status)));
    }
    ended = format("part {} of the model ended with exit code {}", part, WEXITSTATUS(*status));
  }
  // One that lost a neighbour ends too: whoever was killed was seen above.
  if (!ended.empty()) fail(ErrorCode::kInternal, "{}", ended);
}

void die_with_stage_parent() {
  const auto parent = number_from<pid_t>(environment_text(kStageParent));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before; one that is not named right counts as dead.
  if (!parent || *parent != ::getppid()) ::_exit(1);
}

std::uint16_t unused_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), plain, size) != 0 ||
      ::getsockname(socket.get(), plain, &size) != 0) {
    fail_errno(errno, "cannot find a port");
  }
  return ntohs(address.sin_port);
}

}  // namespace harmonics::inline in_text_program
