#include <harmonics/clients/weights_file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/custody/digest.h>

namespace harmonics::inline in_clients {

std::string weights_file_digest(const std::filesystem::path& file) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  const auto cannot = [&] {
    fail_errno(errno, format("cannot read the weights '{}'", file.string()));
  };
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) cannot();
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorCode::kInvalidArgument, "weights: '{}' is no file", file.string());
  }
  Sha256 digest;
  std::vector<std::byte> piece(kPieceBytes);
  while (true) {
    const ssize_t got = ::read(opened.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot();
    if (got == 0) return digest_text(digest.finish());
    digest.update(std::span(piece).first(static_cast<std::size_t>(got)));
  }
}

}  // namespace harmonics::inline in_clients
