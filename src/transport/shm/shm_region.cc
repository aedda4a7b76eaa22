#include "shm_region.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {

ShmRegion::ShmRegion(Descriptor file, std::size_t bytes) : file_(std::move(file)), size_(bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (address == MAP_FAILED) {
    fail(ErrorCode::kResourceExhausted, "cannot map {} bytes of shared memory: {}", bytes,
         std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(address);
}

ShmRegion::~ShmRegion() { ::munmap(data_, size_); }

std::shared_ptr<ShmRegion> ShmRegion::create(std::size_t bytes) {
  Descriptor file(::memfd_create("harmonics", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail(ErrorCode::kResourceExhausted, "cannot make {} bytes of shared memory: {}", bytes,
         std::strerror(errno));
  }
  return std::shared_ptr<ShmRegion>(new ShmRegion(std::move(file), bytes));
}

std::shared_ptr<ShmRegion> ShmRegion::map(Descriptor file, std::size_t bytes) {
  struct stat status {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &status) != 0 ||
      status.st_size != static_cast<off_t>(bytes) || bytes == 0) {
    fail(ErrorCode::kDataLoss, "the peer sent no sealed memory file of {} bytes", bytes);
  }
  return std::shared_ptr<ShmRegion>(new ShmRegion(std::move(file), bytes));
}

namespace {

// Room for one descriptor beside the notice, as the kernel wants it.
struct NoticeMessage {
  explicit NoticeMessage(ShmNotice& notice) : piece{&notice, sizeof(notice)} {
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  iovec piece;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

}  // namespace

void send_notice(int socket, const ShmNotice& notice, int fd, Deadline deadline) {
  ShmNotice copy = notice;
  NoticeMessage message(copy);
  if (fd >= 0) {
    cmsghdr* control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  } else {
    message.header.msg_controllen = 0;
  }
  // So few bytes go whole or not at all.
  while (::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      fail(ErrorCode::kUnavailable, "the local socket broke: {}", std::strerror(errno));
    }
    if (!wait_for(socket, POLLOUT, deadline, nullptr)) {
      fail(ErrorCode::kUnavailable, "the peer does not take descriptors any more");
    }
  }
}

std::optional<ReceivedNotice> receive_notice(int socket) {
  ReceivedNotice out;
  NoticeMessage message(out.notice);
  const ssize_t count = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (count <= 0) fail(ErrorCode::kUnavailable, "the other process closed its end, or died");
  for (cmsghdr* control = CMSG_FIRSTHDR(&message.header); control != nullptr;
       control = CMSG_NXTHDR(&message.header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
      out.file = Descriptor(fd);
    }
  }
  if (count != sizeof(ShmNotice)) fail(ErrorCode::kDataLoss, "the peer sent half a notice");
  return out;
}

}  // namespace harmonics::inline in_transport
