// Memory that the processes of one user on one machine share by name, with a lock that survives the
// death of whoever holds it.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/base/descriptor.h>

#include <harmonics/share/process_identity.h>

namespace harmonics::inline in_share {

/// The most processes (or schedulers in them) that share a segment.
inline constexpr std::size_t kMaxAttached = 64;

/// What every segment begins with.
struct SegmentHead {
  std::uint64_t magic = 0;
  /// Of all that the processes must agree on.
  std::uint64_t fingerprint = 0;
  std::uint64_t bytes = 0;
  pthread_mutex_t mutex{};
  std::array<ProcessIdentity, kMaxAttached> attached{};
};

/// What a segment is to hold.
struct SegmentPlan {
  /// Letters, digits, '.', '_' and '-'.
  std::string name;
  /// All of it, head included.
  std::size_t bytes = 0;
  std::uint64_t fingerprint = 0;
  /// Called with the rest of the memory, zeroed, when the segment is new.
  std::function<void(std::byte*)> make = nullptr;
  /// Called with the lock held after a process died with it: brings the rest back into order.
  std::function<void()> repair = nullptr;
};

/// One process's hold on a segment: found by name, or made. The last one to leave removes it; one
/// that only dead processes have left behind is made anew. Processes in different containers do not
/// see each other. Thread safe.
class SharedSegment {
 public:
  /// A segment whose living users agreed on something else is an Error (kFailedPrecondition), more
  /// than kMaxAttached users are kResourceExhausted.
  explicit SharedSegment(SegmentPlan plan);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Which of the attached this one is.
  [[nodiscard]] std::size_t place() const { return place_; }
  [[nodiscard]] SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(memory_); }
  /// The memory behind the head, aligned to 64 bytes.
  [[nodiscard]] std::byte* body() const { return memory_ + kHeadBytes; }
  static constexpr std::size_t kHeadBytes = (sizeof(SegmentHead) + 63) / 64 * 64;

  /// Holds the segment's lock.
  class Lock {
   public:
    explicit Lock(SharedSegment& segment);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    SharedSegment& segment_;
  };

 private:
  void open_locked();
  void start_anew();
  void attach();
  void check_users();

  SegmentPlan plan_;
  std::string path_;
  Descriptor file_;
  std::byte* memory_ = nullptr;
  std::size_t place_ = 0;
};

/// Waits until `word` is no longer `seen`, a wake-up comes, or the time is over. Between processes.
void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanoseconds timeout);
/// Changes the word and wakes all who wait on it.
void wake_all(std::atomic<std::uint32_t>& word);

}  // namespace harmonics::inline in_share
