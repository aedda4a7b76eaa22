#include <harmonics/data/kept_rows.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::uint64_t kSumStart = 0xcbf29ce484222325U;  // FNV-1a
/// "BYTES SUM" and the end of the line, each number as wide as it can be.
constexpr std::size_t kMarkBytes = 16 + 1 + 16 + 1;

fs::path rows_path(const fs::path& folder, const std::string& name) {
  return folder / (name + ".rows");
}
fs::path marks_path(const fs::path& folder, const std::string& name) {
  return folder / (name + ".marks");
}

std::uint64_t added_sum(std::uint64_t sum, ByteSpan bytes) {
  for (const std::byte one : bytes)
    sum = (sum ^ std::to_integer<std::uint64_t>(one)) * 0x100000001b3U;
  return sum;
}

struct KeptMark {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

std::string mark_text(const KeptMark& mark) {
  return format("{:016x} {:016x}\n", mark.bytes, mark.sum);
}

std::optional<std::uint64_t> hex_number(std::string_view text) {
  std::uint64_t value = 0;
  for (const char digit : text) {
    const bool letter = digit >= 'a' && digit <= 'f';
    if (!letter && (digit < '0' || digit > '9')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(letter ? digit - 'a' + 10 : digit - '0');
  }
  return value;
}

/// Nothing for a line that was not written to its end.
std::optional<KeptMark> mark_of(std::string_view line) {
  if (line.size() != kMarkBytes || line[16] != ' ' || line[33] != '\n') return std::nullopt;
  const auto bytes = hex_number(line.substr(0, 16));
  const auto sum = hex_number(line.substr(17, 16));
  if (!bytes || !sum) return std::nullopt;
  return KeptMark{*bytes, *sum};
}

[[noreturn]] void broken_file(const fs::path& path, const char* what) {
  fail_errno(errno, format("cannot {} the rows kept in '{}'", what, path.string()));
}

/// Fills the span from an offset on; how much of it there was.
std::size_t read_at(int fd, std::uint64_t offset, std::span<char> to, const fs::path& path) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got =
        ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) broken_file(path, "read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void write_at(int fd, std::uint64_t offset, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t put = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) broken_file(path, "write");
    offset += static_cast<std::uint64_t>(put);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

/// Walks over batches as long as mark and text agree.
class KeptWalk {
 public:
  KeptWalk(int rows, const fs::path& rows_path, int marks, const fs::path& marks_path)
      : rows_(rows), rows_path_(rows_path), marks_(marks), marks_path_(marks_path) {}

  [[nodiscard]] std::int64_t batches() const { return batches_; }
  [[nodiscard]] const KeptMark& last() const { return last_; }

  bool next() {
    std::array<char, kMarkBytes> line{};
    const std::size_t got =
        read_at(marks_, static_cast<std::uint64_t>(batches_) * kMarkBytes, line, marks_path_);
    const std::optional<KeptMark> mark = mark_of({line.data(), got});
    if (!mark || mark->bytes < last_.bytes || batches_ == kMaxKeptBatches) return false;
    if (sum_until(mark->bytes) != mark->sum) return false;
    last_ = *mark;
    ++batches_;
    return true;
  }

 private:
  /// Nothing where the text is shorter.
  std::optional<std::uint64_t> sum_until(std::uint64_t end) {
    std::uint64_t sum = last_.sum;
    for (std::uint64_t at = last_.bytes; at < end;) {
      const std::size_t wanted = std::min<std::uint64_t>(end - at, piece_.size());
      if (read_at(rows_, at, {piece_.data(), wanted}, rows_path_) < wanted) return std::nullopt;
      sum = added_sum(sum, std::as_bytes(std::span(piece_.data(), wanted)));
      at += wanted;
    }
    return sum;
  }

  const int rows_;
  const fs::path& rows_path_;
  const int marks_;
  const fs::path& marks_path_;
  std::vector<char> piece_ = std::vector<char>(kPieceBytes);
  KeptMark last_{0, kSumStart};
  std::int64_t batches_ = 0;
};

Descriptor opened(const fs::path& path) {
  constexpr mode_t kOwnerAlone = S_IRUSR | S_IWUSR;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerAlone));
  if (!file) broken_file(path, "open");
  return file;
}

}  // namespace

std::int64_t kept_batches(const fs::path& folder, const std::string& name) {
  const fs::path rows = rows_path(folder, name);
  const fs::path marks = marks_path(folder, name);
  const Descriptor text(::open(rows.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const Descriptor lines(::open(marks.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!text || !lines) {
    if (errno == ENOENT) return 0;
    broken_file(text ? marks : rows, "read");
  }
  KeptWalk walk(text.get(), rows, lines.get(), marks);
  while (walk.next()) continue;
  return walk.batches();
}

KeptRows::KeptRows(const fs::path& folder, const std::string& name, std::int64_t batches)
    : rows_path_(rows_path(folder, name)), marks_path_(marks_path(folder, name)) {
  std::error_code error;
  fs::create_directories(folder, error);
  rows_ = opened(rows_path_);
  if (::flock(rows_.get(), LOCK_EX | LOCK_NB) != 0) {
    fail(ErrorCode::kUnavailable,
         "another process still writes '{}': it must have ended before this one goes on",
         rows_path_.string());
  }
  marks_ = opened(marks_path_);
  KeptWalk walk(rows_.get(), rows_path_, marks_.get(), marks_path_);
  while (walk.batches() < batches && walk.next()) continue;
  if (walk.batches() < batches) {
    fail(ErrorCode::kDataLoss, "'{}' holds {} whole batches, not the {} that were there before",
         rows_path_.string(), walk.batches(), batches);
  }
  batches_ = batches;
  bytes_ = walk.last().bytes;
  sum_ = walk.last().sum;
  // The marks first: text without a mark does not count.
  const auto marked = static_cast<off_t>(static_cast<std::uint64_t>(batches_) * kMarkBytes);
  if (::ftruncate(marks_.get(), marked) != 0) broken_file(marks_path_, "shorten");
  if (::ftruncate(rows_.get(), static_cast<off_t>(bytes_)) != 0) broken_file(rows_path_, "shorten");
}

void KeptRows::add(std::string_view text) {
  if (batches_ == kMaxKeptBatches) {
    fail(ErrorCode::kResourceExhausted, "'{}' has {} batches and takes no more",
         rows_path_.string(), batches_);
  }
  write_at(rows_.get(), bytes_, text, rows_path_);
  bytes_ += text.size();
  sum_ = added_sum(sum_, bytes_of(text));
  write_at(marks_.get(), static_cast<std::uint64_t>(batches_) * kMarkBytes,
           mark_text({bytes_, sum_}), marks_path_);
  ++batches_;
}

void KeptRows::finish() {
  if (::fsync(rows_.get()) != 0) broken_file(rows_path_, "sync");
  if (::fsync(marks_.get()) != 0) broken_file(marks_path_, "sync");
}

void KeptRows::read(const std::function<void(ByteSpan)>& take) const {
  std::vector<char> piece(kPieceBytes);
  for (std::uint64_t at = 0; at < bytes_;) {
    const std::size_t wanted = std::min<std::uint64_t>(bytes_ - at, piece.size());
    if (read_at(rows_.get(), at, {piece.data(), wanted}, rows_path_) < wanted) {
      fail(ErrorCode::kDataLoss, "'{}' has become shorter while it was read", rows_path_.string());
    }
    take(std::as_bytes(std::span(piece.data(), wanted)));
    at += wanted;
  }
}

}  // namespace harmonics::inline in_data
