#include <harmonics/share/process_identity.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/format.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_share {
namespace {

struct Status {
  char state = 'X';
  std::uint64_t started = 0;
};

// Fields 3 and 22 of /proc/PID/stat. The name before them may hold spaces and brackets itself.
Status read_status(std::int32_t pid) {
  const std::string path = format("/proc/{}/stat", pid);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  std::array<char, 1024> buffer{};
  const ssize_t size = ::read(file.get(), buffer.data(), buffer.size());
  if (size <= 0) return {};
  std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  const std::size_t bracket = text.rfind(')');
  if (bracket == std::string_view::npos || bracket + 2 >= text.size()) return {};
  text.remove_prefix(bracket + 2);
  Status status{.state = text.front()};
  constexpr int kFieldsToStart = 19;
  for (int field = 0; field < kFieldsToStart; ++field) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return {};
    text.remove_prefix(space + 1);
  }
  status.started = leading_number<std::uint64_t>(text).value_or(0);
  return status;
}

}  // namespace

ProcessIdentity this_process() {
  const std::int32_t pid = ::getpid();
  return {pid, read_status(pid).started};
}

bool is_alive(const ProcessIdentity& process) {
  if (process.nobody()) return false;
  const Status status = read_status(process.pid);
  return status.state != 'X' && status.state != 'Z' && status.started == process.started;
}

}  // namespace harmonics::inline in_share
