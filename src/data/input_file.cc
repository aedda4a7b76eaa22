#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_data {
namespace {

/// Reads with pread, never through a mapping, so that a file that shrinks while it is read is an
/// Error and not a crash.
class InputFile final : public ByteSource {
 public:
  explicit InputFile(const std::string& name);
  void read_at(std::uint64_t offset, std::span<char> out) const override;

 private:
  Descriptor descriptor_;
};

InputFile::InputFile(const std::string& name) : ByteSource(name) {
  // Not to wait in open for whoever might write into a pipe.
  descriptor_.reset(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor_) fail_errno(errno, format("cannot read '{}'", name));
  struct stat facts {};
  if (::fstat(descriptor_.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    fail(ErrorCode::kInvalidArgument,
         "cannot read '{}': not a regular file; give a data file, not a folder or a pipe", name);
  }
  set_size(static_cast<std::uint64_t>(facts.st_size));
}

void InputFile::read_at(std::uint64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t got =
        ::pread(descriptor_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, format("cannot read '{}'", path()));
    }
    if (got == 0) {
      fail(ErrorCode::kDataLoss,
           "'{}' ends at byte {} but had {} bytes when it was opened: it was cut off while it was "
           "read; restore it and start again",
           path(), offset, size());
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

ByteSourcePtr open_file(const std::string& path) { return std::make_shared<InputFile>(path); }

}  // namespace harmonics::inline in_data
