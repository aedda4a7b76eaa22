#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace harmonics::inline in_worker {

OutputFile::OutputFile(std::string path, std::uint64_t segment_bytes, std::uint64_t stream_bytes)
    : path_(std::move(path)),
      segment_bytes_(std::max<std::uint64_t>(segment_bytes, 1)),
      stream_bytes_(std::max(stream_bytes, segment_bytes_)) {}

bool OutputFile::open_segment() {
  if (descriptor_ && written_ - segment_start_ < segment_bytes_) return true;
  segment_start_ = written_;
  descriptor_.reset(::open((path_ + "." + std::to_string(written_)).c_str(),
                           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!descriptor_) return false;
  kept_.push_back(segment_start_);
  // The newest file will grow to segment_bytes_: make room for that now.
  while (kept_.size() > 1 && written_ - kept_.front() + segment_bytes_ > stream_bytes_) {
    ::unlink((path_ + "." + std::to_string(kept_.front())).c_str());
    kept_.pop_front();
  }
  return true;
}

void OutputFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!open_segment()) break;
    const std::uint64_t room = segment_bytes_ - (written_ - segment_start_);
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(room, bytes.size()));
    const ssize_t wrote = ::write(descriptor_.get(), bytes.data(), part);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    written_ += static_cast<std::uint64_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  dropped_ += bytes.size();
}

}  // namespace harmonics::inline in_worker
