#include <harmonics/share/shared_segment.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_share {
namespace {

constexpr std::uint64_t kMagic = 0x3168637461707348ULL;  // "Hspatch1"
constexpr std::size_t kMaxName = 100;

std::string path_of(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= kMaxName &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
          std::string::npos;
  if (!good) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot name shared memory: use 1 to {} letters, digits, '.', '_' or '-'", name,
         kMaxName);
  }
  return format("/harmonics-{}-{}", ::geteuid(), name);
}

void make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &kind);
  pthread_mutexattr_destroy(&kind);
}

}  // namespace

SharedSegment::SharedSegment(SegmentPlan plan)
    : plan_(std::move(plan)), path_(path_of(plan_.name)) {
  plan_.bytes = (plan_.bytes + 63) / 64 * 64;
  open_locked();
  try {
    attach();
  } catch (...) {
    if (memory_ != nullptr) ::munmap(memory_, plan_.bytes);
    throw;
  }
  ::flock(file_.get(), LOCK_UN);
}

// Opens the file and locks it against others who come or go. Whoever waited for the lock may find
// that the file was removed meanwhile, and begins again.
void SharedSegment::open_locked() {
  for (;;) {
    file_.reset(::shm_open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file_) fail_errno(errno, "shared memory '" + path_ + "' cannot be opened");
    struct stat status {};
    if (::flock(file_.get(), LOCK_EX) != 0 || ::fstat(file_.get(), &status) != 0) {
      fail_errno(errno, "shared memory '" + path_ + "' cannot be locked");
    }
    if (status.st_nlink > 0) return;
    file_.reset();
  }
}

void SharedSegment::attach() {
  struct stat status {};
  ::fstat(file_.get(), &status);
  bool fresh = status.st_size == 0;
  if (!fresh && static_cast<std::size_t>(status.st_size) != plan_.bytes) {
    // Another layout: its users decide whether it may go.
    void* const there = ::mmap(nullptr, kHeadBytes, PROT_READ, MAP_SHARED, file_.get(), 0);
    if (there == MAP_FAILED) fail_errno(errno, "shared memory '" + path_ + "' cannot be mapped");
    bool used = false;
    for (const ProcessIdentity& one : static_cast<const SegmentHead*>(there)->attached) {
      used |= is_alive(one);
    }
    ::munmap(there, kHeadBytes);
    if (used) {
      fail(ErrorCode::kFailedPrecondition,
           "'{}' is in use by processes with other settings: give all of them the same",
           plan_.name);
    }
    fresh = true;
    if (::ftruncate(file_.get(), 0) != 0) fail_errno(errno, "'" + path_ + "' cannot be cleared");
  }
  if (fresh && ::ftruncate(file_.get(), static_cast<off_t>(plan_.bytes)) != 0) {
    fail_errno(errno, format("{} bytes of shared memory cannot be had", plan_.bytes));
  }
  void* const mapped =
      ::mmap(nullptr, plan_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) fail_errno(errno, "shared memory '" + path_ + "' cannot be mapped");
  memory_ = static_cast<std::byte*>(mapped);
  if (fresh || head().magic != kMagic) start_anew();
  check_users();
}

void SharedSegment::start_anew() {
  std::memset(memory_, 0, plan_.bytes);
  SegmentHead& head = *new (memory_) SegmentHead;
  head.bytes = plan_.bytes;
  head.fingerprint = plan_.fingerprint;
  make_mutex(head.mutex);
  if (plan_.make) plan_.make(body());
  head.magic = kMagic;
}

void SharedSegment::check_users() {
  std::size_t living = 0;
  for (const ProcessIdentity& one : head().attached) living += is_alive(one) ? 1 : 0;
  if (living == 0) {
    start_anew();
  } else if (head().fingerprint != plan_.fingerprint) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' is in use by {} process(es) with other settings: give all of them the same",
         plan_.name, living);
  }
  for (place_ = 0; place_ < kMaxAttached; ++place_) {
    ProcessIdentity& place = head().attached[place_];
    if (is_alive(place)) continue;
    place = this_process();
    return;
  }
  fail(ErrorCode::kResourceExhausted, "'{}' already has {} users, the most that it can have",
       plan_.name, kMaxAttached);
}

SharedSegment::~SharedSegment() {
  ::flock(file_.get(), LOCK_EX);
  head().attached[place_] = {};
  bool used = false;
  for (const ProcessIdentity& one : head().attached) used |= is_alive(one);
  if (!used) ::shm_unlink(path_.c_str());
  ::munmap(memory_, plan_.bytes);
}

SharedSegment::Lock::Lock(SharedSegment& segment) : segment_(segment) {
  pthread_mutex_t& mutex = segment.head().mutex;
  const int result = pthread_mutex_lock(&mutex);
  if (result == EOWNERDEAD) {
    if (segment.plan_.repair) segment.plan_.repair();
    pthread_mutex_consistent(&mutex);
  } else if (result != 0) {
    fail_errno(result, "the lock of shared memory '" + segment.path_ + "' is broken");
  }
}

SharedSegment::Lock::~Lock() { pthread_mutex_unlock(&segment_.head().mutex); }

// A futex has no state of its own, so that one who is killed while waiting leaves nothing behind; a
// condition variable between processes would.
void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanoseconds timeout) {
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &relative, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace harmonics::inline in_share
