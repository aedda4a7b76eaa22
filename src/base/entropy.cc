#include <harmonics/base/entropy.h>

#include <sys/random.h>

#include <cerrno>
#include <system_error>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_base {

void fill_entropy(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(ErrorCode::kInternal, "no random bytes from the operating system: {}",
           std::generic_category().message(errno));
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::string random_hex(std::size_t bytes) {
  Bytes drawn(bytes);
  fill_entropy(drawn);
  return to_hex(drawn);
}

}  // namespace harmonics::inline in_base
