// A ring of bytes in shared memory: one process writes, the other reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <harmonics/base/bytes.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// The part of a ring that both processes see, before its bytes. All zeros at the start.
struct ShmRingState {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes ever written; by the writer
  alignas(64) std::atomic<std::uint64_t> read;     // bytes ever read; by the reader
  alignas(64) std::atomic<std::uint32_t> signal;   // the futex: changes when the reader should look
  std::atomic<std::uint32_t> sleeping;             // the reader waits for the signal
  std::atomic<std::uint32_t> hung_up;              // by the writer: nothing will follow
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The writer's side. One thread at a time; `hang_up` from any.
class ShmRingWriter {
 public:
  /// `bytes` (a power of two) follow `state`; both outlive the writer.
  ShmRingWriter(ShmRingState& state, std::span<std::byte> bytes) : state_(state), bytes_(bytes) {}

  [[nodiscard]] std::size_t room() const;
  /// Puts bytes behind those written before, unseen by the reader until `publish`. Only as much as
  /// there is room for.
  void put(ByteSpan bytes);
  /// Shows the reader what was put and wakes it if it sleeps.
  void publish();
  /// Wakes the reader, which from now on waits for nothing.
  void hang_up();

 private:
  void poke();

  ShmRingState& state_;
  std::span<std::byte> bytes_;
  std::uint64_t position_ = 0;
};

/// The reader's side. One thread; `wake` from any.
class ShmRingReader {
 public:
  ShmRingReader(ShmRingState& state, std::span<std::byte> bytes) : state_(state), bytes_(bytes) {}

  /// How many bytes can be taken. A writer that claims more than the ring holds is an Error
  /// (kDataLoss).
  [[nodiscard]] std::size_t available() const;
  /// Copies the next bytes out; as many as are available at most.
  void take(std::span<std::byte> to);
  /// Gives the room of what was taken back to the writer.
  void release();
  /// Returns when there is something to take, after a wake since the last wait, once the writer has
  /// hung up, or at `until`.
  void wait(Deadline until);
  void wake();
  [[nodiscard]] bool writer_gone() const { return state_.hung_up.load() != 0; }

 private:
  ShmRingState& state_;
  std::span<std::byte> bytes_;
  std::uint64_t position_ = 0;
  std::uint32_t signal_seen_ = 0;
  std::atomic<bool> woken_ = false;
};

}  // namespace harmonics::inline in_transport
