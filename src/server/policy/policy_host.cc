// The child process in which a policy library runs.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/server/policy_process.h>

#include "policy_talk.h"

namespace harmonics::inline in_server {
namespace {

void answer(const std::string& line) {
  std::string text = line + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t wrote = ::write(STDIN_FILENO, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) ::_exit(1);
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

std::unique_ptr<WorkloadPolicy> load(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(ErrorCode::kInvalidArgument, "cannot be loaded: {}", ::dlerror());
  const auto make = reinterpret_cast<WorkloadPolicy* (*)()>(::dlsym(handle, kPolicyFunction));
  if (make == nullptr) {
    fail(ErrorCode::kInvalidArgument, "exports no function '{}' (extern \"C\")", kPolicyFunction);
  }
  std::unique_ptr<WorkloadPolicy> policy(make());
  if (!policy) fail(ErrorCode::kInvalidArgument, "'{}' gave no policy", kPolicyFunction);
  return policy;
}

}  // namespace

int serve_policy(const std::filesystem::path& library) {
  std::unique_ptr<WorkloadPolicy> policy;
  try {
    policy = load(library);
  } catch (const std::exception& error) {
    answer(policy_error(error.what()));
    return 1;
  }
  answer(policy_greeting(*policy));
  PolicyDesk desk(*policy);
  std::string waiting;
  std::array<char, 64 << 10> chunk;
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    waiting.append(chunk.data(), static_cast<std::size_t>(got));
    for (std::size_t end = waiting.find('\n'); end != waiting.npos; end = waiting.find('\n')) {
      answer(desk.answer(std::string_view(waiting).substr(0, end)));
      waiting.erase(0, end + 1);
    }
  }
}

}  // namespace harmonics::inline in_server
