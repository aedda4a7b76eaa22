#include <harmonics/share/lease_table.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_share {

// One user's dealings with one device.
struct LeaseTable::Line {
  std::uint64_t waiting_rows;  // 0: does not wait
  std::uint64_t ticket;
  std::uint64_t held_rows;
  double weight;
  double had;  // rows over weight, on the device's scale
  std::atomic<std::uint32_t> word;
};

struct LeaseTable::DeviceRecord {
  std::uint64_t held_rows;
  double turn;             // where the last one that was served stood
  std::uint64_t kept_for;  // whose turn it would be if it asked again before `kept_until_ns`
  std::int64_t kept_until_ns;
};

struct LeaseTable::Board {
  std::uint64_t next_ticket;
  std::array<DeviceRecord, kMaxSharedDevices> devices;
  std::array<std::array<Line, kMaxSharedDevices>, kMaxAttached> lines;
};

namespace {

/// How long a device stays idle for a user that has had less than those who wait and has just let
/// go: it computes one sub-batch at a time and asks for the next one at once, or not at all.
constexpr Nanoseconds kAnticipation = std::chrono::microseconds(200);

Nanoseconds now() { return SteadyClock().now(); }

std::uint64_t fingerprint_of(const std::vector<SharedDevice>& devices) {
  std::string text = "leases 1";
  for (const SharedDevice& device : devices) {
    text += format("|{}|{}", device.name, device.capacity_rows);
  }
  return std::hash<std::string>{}(text);
}

const std::vector<SharedDevice>& checked(const std::vector<SharedDevice>& devices, double weight) {
  if (devices.empty() || devices.size() > kMaxSharedDevices) {
    fail(ErrorCode::kInvalidArgument, "{} devices to share: 1 to {} are possible", devices.size(),
         kMaxSharedDevices);
  }
  if (!std::isfinite(weight) || weight <= 0) {
    fail(ErrorCode::kInvalidArgument, "a weight of {} is not a number above 0", weight);
  }
  return devices;
}

}  // namespace

LeaseTable::LeaseTable(const std::string& name, const std::vector<SharedDevice>& devices,
                       double weight)
    : devices_(checked(devices, weight)),
      weight_(weight),
      segment_({.name = name,
                .bytes = SharedSegment::kHeadBytes + sizeof(Board),
                .fingerprint = fingerprint_of(devices),
                .make = [](std::byte* memory) { new (memory) Board{}; },
                .repair = [this] { repair(); }}),
      turns_(std::make_unique<std::mutex[]>(devices.size())) {
  const SharedSegment::Lock lock(segment_);
  for (Line& line : board().lines[segment_.place()]) {
    line.waiting_rows = 0;
    line.held_rows = 0;
    line.had = 0;
    line.weight = weight;
  }
  repair();
}

LeaseTable::Board& LeaseTable::board() const { return *reinterpret_cast<Board*>(segment_.body()); }

// The sums follow from the lines, whatever happened half way.
void LeaseTable::repair() {
  for (std::size_t d = 0; d < devices_.size(); ++d) bury_dead(d);
}

void LeaseTable::bury_dead(std::size_t device) {
  std::uint64_t held = 0;
  for (std::size_t place = 0; place < kMaxAttached; ++place) {
    Line& line = board().lines[place][device];
    if (line.held_rows == 0 && line.waiting_rows == 0) continue;
    const ProcessIdentity& process = segment_.head().attached[place];
    if (!is_alive(process)) {
      if (line.held_rows > 0) {
        log_warn("share", "process {} died with {} rows of device '{}', which go back", process.pid,
                 line.held_rows, devices_[device].name);
      }
      line.held_rows = 0;
      line.waiting_rows = 0;
    }
    held += line.held_rows;
  }
  board().devices[device].held_rows = held;
}

// Who waits and has had the least; nobody: null.
LeaseTable::Line* LeaseTable::next_in_line(std::size_t device) {
  Line* next = nullptr;
  for (auto& lines : board().lines) {
    Line& line = lines[device];
    if (line.waiting_rows == 0) continue;
    const double start = start_of(device, line);
    if (next == nullptr || start < start_of(device, *next) ||
        (start == start_of(device, *next) && line.ticket < next->ticket)) {
      next = &line;
    }
  }
  return next;
}

double LeaseTable::start_of(std::size_t device, const Line& line) const {
  return std::max(board().devices[device].turn, line.had);
}

// How long the device is still kept for someone who does not wait yet.
Nanoseconds LeaseTable::kept_for_another(std::size_t device) const {
  const DeviceRecord& record = board().devices[device];
  if (board().lines[record.kept_for][device].waiting_rows > 0) return Nanoseconds(0);
  return std::max(Nanoseconds(0), Nanoseconds(record.kept_until_ns) - now());
}

// Serves whoever is next, as long as there is room.
void LeaseTable::grant(std::size_t device) {
  DeviceRecord& record = board().devices[device];
  if (kept_for_another(device).count() > 0) return;
  while (Line* const next = next_in_line(device)) {
    if (record.held_rows + next->waiting_rows > devices_[device].capacity_rows) return;
    record.turn = start_of(device, *next);
    next->had = record.turn + static_cast<double>(next->waiting_rows) / next->weight;
    next->held_rows += next->waiting_rows;
    record.held_rows += next->waiting_rows;
    next->waiting_rows = 0;
    wake_all(next->word);
  }
}

void LeaseTable::acquire(std::size_t device, std::size_t rows, Nanoseconds timeout) {
  if (rows == 0 || rows > devices_[device].capacity_rows) {
    fail(ErrorCode::kInvalidArgument, "a lease of {} rows of device '{}', which has {}", rows,
         devices_[device].name, devices_[device].capacity_rows);
  }
  const std::lock_guard turn(turns_[device]);
  Line& line = board().lines[segment_.place()][device];
  std::uint32_t seen = 0;
  {
    const SharedSegment::Lock lock(segment_);
    line.ticket = ++board().next_ticket;
    line.waiting_rows = rows;
    seen = line.word.load(std::memory_order_acquire);
    grant(device);
    if (line.waiting_rows == 0) return;
  }
  const Nanoseconds deadline = now() + timeout;
  Nanoseconds next_check = now() + kCheckInterval;
  Nanoseconds pause = kCheckInterval;
  for (;;) {
    if (now() >= deadline) give_up(device);
    wait_on(line.word, seen, std::min(pause, deadline - now()));
    const SharedSegment::Lock lock(segment_);
    if (line.waiting_rows == 0) return;
    if (now() >= next_check) {
      bury_dead(device);
      next_check = now() + kCheckInterval;
    }
    grant(device);
    if (line.waiting_rows == 0) return;
    seen = line.word.load(std::memory_order_acquire);
    const Nanoseconds kept = kept_for_another(device);
    pause = kept.count() > 0 ? kept : kCheckInterval;
  }
}

void LeaseTable::give_up(std::size_t device) {
  std::string who;
  {
    const SharedSegment::Lock lock(segment_);
    board().lines[segment_.place()][device].waiting_rows = 0;
    who = holders(device);
    grant(device);
  }
  fail(ErrorCode::kDeadlineExceeded, "no turn at device '{}' in time; it is held by {}",
       devices_[device].name, who);
}

std::string LeaseTable::holders(std::size_t device) {
  std::string text;
  for (std::size_t place = 0; place < kMaxAttached; ++place) {
    const Line& line = board().lines[place][device];
    if (line.held_rows == 0) continue;
    add_item(text,
             format("process {} ({} rows)", segment_.head().attached[place].pid, line.held_rows));
  }
  return text.empty() ? "nobody" : text;
}

void LeaseTable::release(std::size_t device, std::size_t rows) {
  const SharedSegment::Lock lock(segment_);
  Line& line = board().lines[segment_.place()][device];
  const std::uint64_t given = std::min<std::uint64_t>(rows, line.held_rows);
  line.held_rows -= given;
  DeviceRecord& record = board().devices[device];
  record.held_rows -= given;
  Line* const next = next_in_line(device);
  if (next != nullptr && line.waiting_rows == 0 && line.had < start_of(device, *next)) {
    record.kept_for = segment_.place();
    record.kept_until_ns = (now() + kAnticipation).count();
    wake_all(next->word);  // to look again in time
  }
  grant(device);
}

std::size_t LeaseTable::held_rows(std::size_t device) {
  const SharedSegment::Lock lock(segment_);
  bury_dead(device);
  return board().devices[device].held_rows;
}

}  // namespace harmonics::inline in_share
