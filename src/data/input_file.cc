#include "input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <harmonics/base/error.h>

namespace harmonics {

InputFile::InputFile(const std::filesystem::path& path) : path_(path.string()) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail_errno(errno, format("cannot read '{}'", path_));
  struct stat facts {};
  if (::fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(descriptor_);
    fail(ErrorCode::kInvalidArgument,
         "cannot read '{}': not a regular file; give a data file, not a folder or a pipe", path_);
  }
  size_ = static_cast<std::uint64_t>(facts.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read_at(std::uint64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, format("cannot read '{}'", path_));
    }
    if (got == 0) {
      fail(ErrorCode::kDataLoss,
           "'{}' ends at byte {} but had {} bytes when it was opened: it was cut off while it was "
           "read; restore it and start again",
           path_, offset, size_);
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace harmonics
