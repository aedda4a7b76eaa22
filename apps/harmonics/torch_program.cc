#include "torch_program.h"

#include <signal.h>

#include <harmonics/base/error.h>
#include <harmonics/programs/programs.h>

namespace harmonics::inline in_front {
namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 10;

}  // namespace

void become_torch_program(char** argv) {
  // It takes a moment to load and cannot answer signals meanwhile: they wait for it.
  sigset_t interrupts;
  ::sigemptyset(&interrupts);
  ::sigaddset(&interrupts, SIGINT);
  ::sigaddset(&interrupts, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &interrupts, nullptr);
  become_program(kTorchProgram, argv);
}

std::string ask_torch_program(const std::string& flag) {
  std::optional<std::string> answer = ask_program(kTorchProgram, {flag}, kMaxAnswerBytes);
  if (answer) return *std::move(answer);
  fail(ErrorCode::kInternal, "'{} {}' failed: run it by hand to see why",
       path_of(kTorchProgram).string(), flag);
}

}  // namespace harmonics::inline in_front
