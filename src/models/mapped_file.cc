#include <harmonics/models/mapped_file.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_models {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // Non-blocking: a pipe would wait for whoever writes into it.
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_errno(errno, format("cannot read '{}'", path_.string()));
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) {
    fail_errno(errno, format("cannot read '{}'", path_.string()));
  }
  if (!S_ISREG(found.st_mode)) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not a regular file", path_.string());
  }
  size_ = static_cast<std::size_t>(found.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail_errno(errno, format("cannot map '{}'", path_.string()));
  data_ = static_cast<std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::forget(std::uint64_t offset, std::uint64_t size) const {
  if (data_ == nullptr || offset >= size_) return;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  const std::uint64_t end = std::min<std::uint64_t>(offset + size, size_);
  // A hint: pages that stay cost memory, not correctness.
  (void)::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace harmonics::inline in_models
