#include "row_team.h"

namespace harmonics::inline in_runtime {
namespace {

// A round of decoding has hundreds of operations of some ten microseconds: falling asleep between
// them would take longer than they do.
constexpr int kLooks = 4000;

template <typename T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int look = 0; look < kLooks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

RowTeam::RowTeam(int members) {
  for (int member = 1; member < members; ++member) {
    threads_.emplace_back([this, member] { serve(member); });
  }
}

RowTeam::~RowTeam() {
  over_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RowTeam::take_blocks(int member) {
  for (std::size_t block = next_++; block < blocks_; block = next_++) (*work_)(member, block);
}

void RowTeam::serve(int member) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (over_) return;
    take_blocks(member);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void RowTeam::run(std::size_t blocks, const Work& work) {
  if (threads_.empty() || blocks < 2) {
    for (std::size_t block = 0; block < blocks; ++block) work(0, block);
    return;
  }
  work_ = &work;
  blocks_ = blocks;
  next_ = 0;
  busy_ = static_cast<std::uint32_t>(threads_.size());
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_blocks(0);
  for (std::uint32_t left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    wait_while(busy_, left);
  }
}

}  // namespace harmonics::inline in_runtime
