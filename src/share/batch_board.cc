#include <harmonics/share/batch_board.h>

#include <algorithm>
#include <cstring>

namespace harmonics::inline in_share {
namespace {

constexpr std::size_t kErrorText = 400;
/// How often those who wait look whether the others are still there.
constexpr Nanoseconds kLookInterval = std::chrono::milliseconds(50);

enum class SlotState : std::uint32_t { kFree = 0, kFilling, kWaiting, kTaken, kDone, kFailed };

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

struct BatchBoard::Slot {
  std::atomic<std::uint32_t> word;
  SlotState state;
  std::uint64_t place;  // of the user who asks
  std::uint64_t ticket;
  std::uint64_t rows;
  ErrorCode code;
  std::array<char, kErrorText> error;
};

struct BatchBoard::Records {
  ProcessIdentity owner;
  std::uint64_t owner_place;
  std::uint64_t next_ticket;
  std::atomic<std::uint32_t> work_word;
  std::atomic<std::uint32_t> room_word;
  std::array<std::uint64_t, 3> counts;
  std::array<Slot, kBatchSlots> slots;
};

std::size_t BatchBoard::bytes_of(const BoardSizes& sizes) {
  return SharedSegment::kHeadBytes + aligned(sizeof(Records)) +
         kBatchSlots * (aligned(sizes.slot_rows * sizes.input_row_bytes) +
                        aligned(sizes.slot_rows * sizes.output_row_bytes));
}

BatchBoard::BatchBoard(const std::string& name, const BoardSizes& sizes)
    : sizes_(sizes),
      segment_({.name = "batches-" + name,
                .bytes = bytes_of(sizes),
                .fingerprint = sizes.fingerprint,
                .make = [](std::byte* memory) { new (memory) Records{}; },
                .repair = [this] { bury_dead(); }}) {}

BatchBoard::Records& BatchBoard::records() const {
  return *reinterpret_cast<Records*>(segment_.body());
}

std::byte* BatchBoard::input(std::size_t slot) const {
  return segment_.body() + aligned(sizeof(Records)) +
         slot * aligned(sizes_.slot_rows * sizes_.input_row_bytes);
}

std::byte* BatchBoard::output(std::size_t slot) const {
  return input(kBatchSlots) + slot * aligned(sizes_.slot_rows * sizes_.output_row_bytes);
}

// Slots of users who are gone; what the owner computes for one of them ends first.
void BatchBoard::bury_dead() {
  for (Slot& slot : records().slots) {
    if (slot.state == SlotState::kFree || slot.state == SlotState::kTaken) continue;
    if (!is_alive(segment_.head().attached[slot.place])) slot.state = SlotState::kFree;
  }
}

// --- those who ask ---

std::size_t BatchBoard::take_slot() {
  const SharedSegment::Lock lock(segment_);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t s = 0; s < kBatchSlots; ++s) {
      Slot& slot = records().slots[s];
      if (slot.state != SlotState::kFree) continue;
      slot.state = SlotState::kFilling;
      slot.place = segment_.place();
      return s;
    }
    bury_dead();
  }
  return kBatchSlots;
}

void BatchBoard::post(std::size_t index, std::size_t rows) {
  const SharedSegment::Lock lock(segment_);
  Slot& slot = records().slots[index];
  slot.rows = rows;
  slot.ticket = ++records().next_ticket;
  slot.state = SlotState::kWaiting;
  wake_all(records().work_word);
}

bool BatchBoard::answered(std::size_t index, BatchAnswer& answer) {
  const SharedSegment::Lock lock(segment_);
  const Slot& slot = records().slots[index];
  if (slot.state == SlotState::kDone) {
    answer.done = true;
    return true;
  }
  if (slot.state != SlotState::kFailed) return false;
  answer = {.done = false, .code = slot.code, .error = slot.error.data()};
  return true;
}

void BatchBoard::free_slot(std::size_t index) {
  const SharedSegment::Lock lock(segment_);
  Slot& slot = records().slots[index];
  // A slot that the owner has taken stays its own until it answers; then it goes with the dead.
  if (slot.state == SlotState::kTaken) {
    slot.place = kMaxAttached;
    return;
  }
  slot.state = SlotState::kFree;
  wake_all(records().room_word);
}

void BatchBoard::wait_for_answer(std::size_t index) {
  const std::atomic<std::uint32_t>& word = records().slots[index].word;
  const std::uint32_t seen = word.load(std::memory_order_acquire);
  BatchAnswer answer;
  if (!answered(index, answer)) wait_on(word, seen, kLookInterval);
}

void BatchBoard::wait_for_room() {
  const std::atomic<std::uint32_t>& word = records().room_word;
  const std::uint32_t seen = word.load(std::memory_order_acquire);
  {
    const SharedSegment::Lock lock(segment_);
    for (const Slot& slot : records().slots) {
      if (slot.state == SlotState::kFree) return;
    }
  }
  wait_on(word, seen, kLookInterval);
}

// --- the owner ---

bool BatchBoard::owner_alive() const {
  const Records& all = records();
  return !all.owner.nobody() && segment_.head().attached[all.owner_place] == all.owner &&
         is_alive(all.owner);
}

bool BatchBoard::has_owner() {
  const SharedSegment::Lock lock(segment_);
  return owner_alive();
}

bool BatchBoard::owns() {
  const SharedSegment::Lock lock(segment_);
  return owner_alive() && records().owner_place == segment_.place();
}

bool BatchBoard::try_own() {
  const SharedSegment::Lock lock(segment_);
  if (owner_alive()) return false;
  records().owner = segment_.head().attached[segment_.place()];
  records().owner_place = segment_.place();
  for (Slot& slot : records().slots) {
    if (slot.state == SlotState::kTaken) {
      slot.state = slot.place < kMaxAttached ? SlotState::kWaiting : SlotState::kFree;
    }
  }
  return true;
}

void BatchBoard::disown() {
  const SharedSegment::Lock lock(segment_);
  if (records().owner_place != segment_.place()) return;
  records().owner = {};
  for (Slot& slot : records().slots) wake_all(slot.word);
}

std::size_t BatchBoard::waiting() {
  const SharedSegment::Lock lock(segment_);
  return static_cast<std::size_t>(
      std::ranges::count(records().slots, SlotState::kWaiting, &Slot::state));
}

std::vector<BatchBoard::Taken> BatchBoard::take_batch(std::size_t max_rows) {
  const SharedSegment::Lock lock(segment_);
  std::vector<std::size_t> order;
  for (std::size_t s = 0; s < kBatchSlots; ++s) {
    if (records().slots[s].state == SlotState::kWaiting) order.push_back(s);
  }
  std::ranges::sort(order, {}, [&](std::size_t s) { return records().slots[s].ticket; });
  std::vector<Taken> batch;
  std::size_t rows = 0;
  for (const std::size_t s : order) {
    Slot& slot = records().slots[s];
    if (!batch.empty() && rows + slot.rows > max_rows) break;
    rows += slot.rows;
    slot.state = SlotState::kTaken;
    batch.push_back({s, slot.rows});
  }
  return batch;
}

void BatchBoard::answer(std::span<const Taken> batch, const BatchAnswer& answer) {
  const SharedSegment::Lock lock(segment_);
  for (const Taken& taken : batch) {
    Slot& slot = records().slots[taken.slot];
    if (slot.state != SlotState::kTaken) continue;
    if (slot.place >= kMaxAttached) {  // nobody waits for it any more
      slot.state = SlotState::kFree;
      wake_all(records().room_word);
      continue;
    }
    slot.state = answer.done ? SlotState::kDone : SlotState::kFailed;
    slot.code = answer.code;
    const std::size_t length = std::min(answer.error.size(), kErrorText - 1);
    std::memcpy(slot.error.data(), answer.error.data(), length);
    slot.error[length] = '\0';
    wake_all(slot.word);
  }
}

void BatchBoard::wait_for_work(Nanoseconds timeout) {
  const std::uint32_t seen = records().work_word.load(std::memory_order_acquire);
  if (waiting() == 0) wait_on(records().work_word, seen, std::min(timeout, kLookInterval));
}

void BatchBoard::wake_owner() { wake_all(records().work_word); }

void BatchBoard::count_batch(std::span<const Taken> batch) {
  const SharedSegment::Lock lock(segment_);
  ++records().counts[0];
  for (const Taken& taken : batch) {
    ++records().counts[1];
    records().counts[2] += taken.rows;
  }
}

std::array<std::uint64_t, 3> BatchBoard::counts() {
  const SharedSegment::Lock lock(segment_);
  return records().counts;
}

}  // namespace harmonics::inline in_share
