#include "run_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_worker {
namespace {

constexpr std::string_view kRunFormat = "harmonics-run 1";

/// Texts that end in zero bytes: none of them can hold one, since they go through execve.
class RecordWriter {
 public:
  void text(std::string_view value) {
    out_.append(value);
    out_.push_back('\0');
  }
  void number(std::uint64_t value) { text(std::to_string(value)); }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : rest_(bytes) {}

  std::string text() {
    const std::size_t end = rest_.find('\0');
    if (end == rest_.npos) {
      whole_ = false;
      return {};
    }
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return value;
  }
  std::uint64_t number() {
    const auto value = number_from<std::uint64_t>(text());
    if (!value) whole_ = false;
    return value.value_or(0);
  }
  /// A count of items that take a byte each at least.
  std::uint64_t count() {
    const std::uint64_t value = number();
    if (value > rest_.size()) whole_ = false;
    return whole_ ? value : 0;
  }
  bool whole() const { return whole_ && rest_.empty(); }
  bool good() const { return whole_; }
  bool at_end() const { return rest_.empty() || !whole_; }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool whole_ = true;
};

constexpr std::array<std::string_view, 8> kEndNames = {
    "exited", "signalled", "timed_out", "stopped", "lease_lost", "lost", "refused", "unable"};

std::string_view name_of(RunEnd end) { return kEndNames[static_cast<std::size_t>(end)]; }

std::optional<RunEnd> end_from(std::string_view name) {
  for (std::size_t i = 0; i < kEndNames.size(); ++i) {
    if (kEndNames[i] == name) return static_cast<RunEnd>(i);
  }
  return std::nullopt;
}

bool write_file(const std::string& path, int how, std::string_view text) {
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, S_IRUSR | S_IWUSR));
  return file && write_all(file.get(), text);
}

/// What the file `state` holds.
struct StateRecords {
  std::optional<SupervisorRecord> supervisor;
  std::optional<EndRecord> end;
  std::size_t bytes = 0;  ///< Of the whole records; zeros are behind them, or nothing.
};

/// More than the records of an attempt take: as long as the file is from the start.
constexpr std::size_t kStateBytes = 2 * kMaxEndMessageBytes;

constexpr std::string_view kSupervisorTag = "supervisor";
constexpr std::string_view kGuardianTag = "guardian";
constexpr std::string_view kEndTag = "end";
constexpr std::string_view kUsageTag = "usage";

StateRecords read_state(const std::string& folder) {
  StateRecords state;
  const auto bytes = read_small_file(folder + "/state", 4 * kMaxEndMessageBytes);
  if (!bytes) return state;
  RecordReader in(*bytes);
  while (!in.at_end()) {
    state.bytes = bytes->size() - in.left();
    const std::string tag = in.text();
    if (tag == kSupervisorTag) {
      SupervisorRecord supervisor;
      supervisor.pid = static_cast<pid_t>(in.number());
      supervisor.start_ticks = in.number();
      supervisor.space = in.text();
      if (in.good() && supervisor.pid > 0) state.supervisor = supervisor;
    } else if (tag == kGuardianTag) {
      const auto pid = static_cast<pid_t>(in.number());
      const std::uint64_t ticks = in.number();
      if (!in.good() || !state.supervisor) return state;
      state.supervisor->guardian = pid;
      state.supervisor->guardian_ticks = ticks;
    } else if (tag == kEndTag) {
      const auto kind = end_from(in.text());
      EndRecord end;
      end.exit_code = static_cast<int>(in.number());
      end.signal = static_cast<int>(in.number());
      end.message = in.text();
      if (!in.good() || !kind) return state;
      end.kind = *kind;
      if (!state.end) state.end = end;
    } else if (tag == kUsageTag) {
      const std::uint64_t cpu_ms = in.number();
      const std::uint64_t peak_memory_kb = in.number();
      if (!in.good() || !state.end) return state;
      state.end->cpu_ms = cpu_ms;
      state.end->peak_memory_kb = peak_memory_kb;
    } else {
      return state;
    }
  }
  if (in.good()) state.bytes = bytes->size();
  return state;
}

}  // namespace

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(descriptor, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

std::optional<std::string> read_small_file(const std::string& path, std::size_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> chunk;
  ssize_t got = 0;
  while (text.size() <= limit && (got = ::read(file.get(), chunk.data(), chunk.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  if (got < 0 || text.size() > limit) return std::nullopt;
  return text;
}

bool replace_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + "~";
  Descriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) return false;
  const bool done = write_all(file.get(), text);
  file.reset();
  if (done) return ::rename(temporary.c_str(), path.c_str()) == 0;
  const int reason = errno;
  ::unlink(temporary.c_str());
  errno = reason;
  return false;
}

std::string work_folder(const RunRecord& run, const std::string& folder) {
  return run.work.starts_with('/') ? run.work : folder + "/" + run.work;
}

std::string working_folder(const RunRecord& run, const std::string& folder) {
  if (run.work.empty()) return run.working_dir.empty() ? folder : run.working_dir;
  const std::string work = work_folder(run, folder);
  return run.working_dir.empty() ? work : work + "/" + run.working_dir;
}

bool write_run(const std::string& folder, const RunRecord& run) {
  RecordWriter out;
  out.text(kRunFormat);
  out.text(run.attempt);
  out.number(run.command.size());
  for (const std::string& word : run.command) out.text(word);
  out.number(run.environment.size());
  for (const auto& [key, value] : run.environment) {
    out.text(key);
    out.text(value);
  }
  out.text(run.working_dir);
  out.number(run.timeout_ms);
  out.number(run.grace_ms);
  out.number(run.hold_bound ? 2 : run.lease_bound ? 1 : 0);
  out.text(run.lease_file);
  out.number(run.segment_bytes);
  out.number(run.stream_bytes);
  std::string cgroups;
  for (const std::string& folder : run.cgroups) cgroups += folder + "\n";
  out.text(cgroups);
  out.text(run.note);
  out.number(run.memory_mb);
  out.number(run.artifacts.max_bytes);
  out.number(run.artifacts.patterns.size());
  for (const std::string& pattern : run.artifacts.patterns) out.text(pattern);
  if (!run.work.empty() || run.user) out.text(run.work);
  if (run.user) {
    out.number(run.user->uid);
    out.number(run.user->gid);
    out.number(run.user->groups.size());
    for (const gid_t group : run.user->groups) out.number(group);
  }
  return write_file(folder + "/run", O_TRUNC, out.bytes()) &&
         write_file(folder + "/state", O_TRUNC, {});
}

std::optional<RunRecord> read_run(const std::string& folder) {
  const auto bytes = read_small_file(folder + "/run", kMaxRunRecordBytes);
  if (!bytes) return std::nullopt;
  RecordReader in(*bytes);
  RunRecord run;
  if (in.text() != kRunFormat) return std::nullopt;
  run.attempt = in.text();
  for (std::uint64_t left = in.count(); left > 0; --left) run.command.push_back(in.text());
  for (std::uint64_t left = in.count(); left > 0; --left) {
    std::string key = in.text();
    run.environment.emplace_back(std::move(key), in.text());
  }
  run.working_dir = in.text();
  run.timeout_ms = in.number();
  run.grace_ms = in.number();
  const std::uint64_t bound = in.number();
  run.lease_bound = bound == 1;
  run.hold_bound = bound == 2;
  run.lease_file = in.text();
  run.segment_bytes = in.number();
  run.stream_bytes = in.number();
  std::string cgroups = in.text();
  for (std::size_t end; (end = cgroups.find('\n')) != cgroups.npos; cgroups.erase(0, end + 1)) {
    run.cgroups.push_back(cgroups.substr(0, end));
  }
  run.note = in.text();
  // Records of earlier versions end here; what they describe may still run.
  if (!in.at_end()) {
    run.memory_mb = in.number();
    run.artifacts.max_bytes = in.number();
    for (std::uint64_t left = in.count(); left > 0; --left) {
      run.artifacts.patterns.push_back(in.text());
    }
  }
  if (!in.at_end()) run.work = in.text();
  if (!in.at_end()) {
    TaskCredentials& user = run.user.emplace();
    user.uid = static_cast<uid_t>(in.number());
    user.gid = static_cast<gid_t>(in.number());
    for (std::uint64_t left = in.count(); left > 0; --left) {
      user.groups.push_back(static_cast<gid_t>(in.number()));
    }
  }
  if (!in.whole() || run.command.empty()) return std::nullopt;
  return run;
}

bool write_supervisor(const std::string& folder, const SupervisorRecord& supervisor) {
  RecordWriter out;
  out.text(kSupervisorTag);
  out.number(static_cast<std::uint64_t>(supervisor.pid));
  out.number(supervisor.start_ticks);
  out.text(supervisor.space);
  if (supervisor.guardian > 0) {
    out.text(kGuardianTag);
    out.number(static_cast<std::uint64_t>(supervisor.guardian));
    out.number(supervisor.guardian_ticks);
  }
  std::string padded = out.bytes();
  padded.resize(kStateBytes);
  return write_file(folder + "/state", O_TRUNC, padded);
}

std::optional<SupervisorRecord> read_supervisor(const std::string& folder) {
  return read_state(folder).supervisor;
}

bool write_stop(const std::string& folder, const StopOrder& stop) {
  RecordWriter out;
  out.text(name_of(stop.as));
  out.number(stop.grace_ms);
  return replace_file(folder + "/stop", out.bytes());
}

std::optional<StopOrder> read_stop(const std::string& folder) {
  const auto bytes = read_small_file(folder + "/stop", kMaxEndMessageBytes);
  if (!bytes) return std::nullopt;
  RecordReader in(*bytes);
  const auto as = end_from(in.text());
  StopOrder stop;
  stop.grace_ms = in.number();
  if (!in.whole() || !as) return std::nullopt;
  stop.as = *as;
  return stop;
}

bool write_end(const std::string& folder, const EndRecord& end) {
  const auto place = static_cast<off_t>(read_state(folder).bytes);
  const Descriptor file(
      ::open((folder + "/state").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const auto write = [&](std::string_view message) {
    RecordWriter out;
    out.text(kEndTag);
    out.text(name_of(end.kind));
    out.number(static_cast<std::uint64_t>(end.exit_code));
    out.number(static_cast<std::uint64_t>(end.signal));
    out.text(message);
    if (end.peak_memory_kb != 0) {
      out.text(kUsageTag);
      out.number(end.cpu_ms);
      out.number(end.peak_memory_kb);
    }
    return ::lseek(file.get(), place, SEEK_SET) == place && write_all(file.get(), out.bytes());
  };
  // How it ended matters more than the words about it.
  return file && (write(std::string_view(end.message).substr(0, kMaxEndMessageBytes)) || write({}));
}

std::optional<EndRecord> read_end(const std::string& folder) { return read_state(folder).end; }

std::uint64_t process_start_ticks(pid_t pid) {
  // The second field is the program's name in brackets, which may hold anything; the state is the
  // first field after the last bracket, the start time the 20th.
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return 0;
  const std::size_t bracket = text->rfind(')');
  if (bracket == text->npos || bracket + 2 >= text->size()) return 0;
  const char state = (*text)[bracket + 2];
  if (state == 'Z' || state == 'X') return 0;
  constexpr int kFieldsBefore = 20;
  std::size_t at = bracket;
  for (int field = 0; field < kFieldsBefore; ++field) {
    at = text->find(' ', at + 1);
    if (at == text->npos) return 0;
  }
  return leading_number<std::uint64_t>(text->substr(at + 1)).value_or(0);
}

std::string boot_id() {
  std::string id = read_small_file("/proc/sys/kernel/random/boot_id", 64).value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string process_space() { return boot_id() + ":" + std::to_string(process_start_ticks(1)); }

bool is_this_space(const std::string& space) {
  return space == (space.find(':') == space.npos ? boot_id() : process_space());
}

std::uint64_t boottime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace harmonics::inline in_worker
