// Memory that two processes share: an anonymous memory file, sealed in size and passed as a
// descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "socket.h"

namespace harmonics::inline in_transport {

/// A mapping of a whole memory file; unmapped when the last user is gone. The creator knows that it
/// is zeroed, the receiver that it cannot shrink.
class ShmRegion {
 public:
  /// A new memory file of that size. Out of memory is an Error (kResourceExhausted).
  [[nodiscard]] static std::shared_ptr<ShmRegion> create(std::size_t bytes);
  /// Maps what a peer sent. A file of another size, or that could still shrink under us, is an
  /// Error (kDataLoss).
  [[nodiscard]] static std::shared_ptr<ShmRegion> map(Descriptor file, std::size_t bytes);
  ~ShmRegion();
  ShmRegion(const ShmRegion&) = delete;
  ShmRegion& operator=(const ShmRegion&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] int fd() const { return file_.get(); }

 private:
  ShmRegion(Descriptor file, std::size_t bytes);

  Descriptor file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What goes with a descriptor over the local socket: which block it is.
struct ShmNotice {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint64_t bytes = 0;
};

/// Sends a notice, with a descriptor unless `fd` is -1. Waits for room until the deadline.
void send_notice(int socket, const ShmNotice& notice, int fd, Deadline deadline);
/// The next notice and its descriptor (invalid if it had none); nothing when none is there. A peer
/// that is gone is an Error (kUnavailable).
struct ReceivedNotice {
  ShmNotice notice;
  Descriptor file;
};
[[nodiscard]] std::optional<ReceivedNotice> receive_notice(int socket);

}  // namespace harmonics::inline in_transport
