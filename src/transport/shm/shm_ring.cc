#include "shm_ring.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

// How often the reader looks before it sleeps: about as long as a wake-up takes, so that a quick
// answer saves one, and a late one costs no more than twice.
constexpr int kLooks = 200;

std::uint32_t* futex_word(std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<std::uint32_t*>(&word);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, Deadline until) {
  const auto left = std::max<Nanoseconds>(until - std::chrono::steady_clock::now(), Nanoseconds(0));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (left - seconds).count();
  (void)::syscall(SYS_futex, futex_word(word), FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  (void)::syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::size_t ShmRingWriter::room() const {
  const std::uint64_t used = position_ - state_.read.load(std::memory_order_acquire);
  // A reader that claims to have read more than was written gets nothing more.
  return used > bytes_.size() ? 0 : bytes_.size() - used;
}

void ShmRingWriter::put(ByteSpan bytes) {
  const std::size_t at = position_ & (bytes_.size() - 1);
  const std::size_t first = std::min(bytes.size(), bytes_.size() - at);
  std::copy_n(bytes.begin(), first, bytes_.begin() + static_cast<std::ptrdiff_t>(at));
  std::ranges::copy(bytes.subspan(first), bytes_.begin());
  position_ += bytes.size();
}

void ShmRingWriter::publish() {
  // Sequentially consistent on both sides: either we see that the reader sleeps, or it sees what we
  // wrote before it does.
  state_.written.store(position_, std::memory_order_seq_cst);
  if (state_.sleeping.load(std::memory_order_seq_cst) != 0) poke();
}

void ShmRingWriter::hang_up() {
  state_.hung_up.store(1, std::memory_order_seq_cst);
  poke();
}

void ShmRingWriter::poke() {
  state_.signal.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(state_.signal);
}

std::size_t ShmRingReader::available() const {
  const std::uint64_t there = state_.written.load(std::memory_order_seq_cst) - position_;
  if (there > bytes_.size()) fail(ErrorCode::kDataLoss, "the peer overran its ring");
  return static_cast<std::size_t>(there);
}

void ShmRingReader::take(std::span<std::byte> to) {
  const std::size_t at = position_ & (bytes_.size() - 1);
  const std::size_t first = std::min(to.size(), bytes_.size() - at);
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), first, to.begin());
  std::copy_n(bytes_.begin(), to.size() - first, to.begin() + static_cast<std::ptrdiff_t>(first));
  position_ += to.size();
}

void ShmRingReader::release() { state_.read.store(position_, std::memory_order_release); }

void ShmRingReader::wait(Deadline until) {
  for (int i = 0; i < kLooks; ++i) {
    if (available() > 0) return;
    relax();
  }
  state_.sleeping.store(1, std::memory_order_seq_cst);
  // What comes after this look changes the signal: no sleep then.
  if (available() == 0 && !writer_gone() && !woken_.exchange(false)) {
    futex_wait(state_.signal, signal_seen_, until);
  }
  state_.sleeping.store(0, std::memory_order_seq_cst);
  signal_seen_ = state_.signal.load(std::memory_order_seq_cst);
}

void ShmRingReader::wake() {
  woken_ = true;
  state_.signal.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(state_.signal);
}

}  // namespace harmonics::inline in_transport
