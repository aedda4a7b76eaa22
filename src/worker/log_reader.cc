#include "log_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <map>
#include <thread>

#include <harmonics/base/error.h>

#include "run_record.h"
#include "supervisor_host.h"

namespace harmonics {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kFollowPeriod(50);

/// The files of one stream, by where in the stream they begin.
std::map<std::uint64_t, fs::path> segments_of(const fs::path& folder, const std::string& stream) {
  std::map<std::uint64_t, fs::path> segments;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stream + ".")) continue;
    const std::string digits = name.substr(stream.size() + 1);
    std::uint64_t start = 0;
    const char* end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, start);
    if (read.ec == std::errc() && read.ptr == end) segments.emplace(start, entry.path());
  }
  return segments;
}

std::string read_from(const fs::path& path, std::uint64_t offset) {
  std::string data(kMaxLogPieceBytes, '\0');
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  const ssize_t got = ::pread(descriptor, data.data(), data.size(), static_cast<off_t>(offset));
  ::close(descriptor);
  data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return data;
}

/// The next piece at or after `offset`; empty when there is none yet.
LogPiece next_piece(const fs::path& folder, const std::string& stream, std::uint64_t offset) {
  const auto segments = segments_of(folder, stream);
  auto segment = segments.upper_bound(offset);
  if (segment != segments.begin()) {
    const auto holds = std::prev(segment);
    LogPiece piece{offset, read_from(holds->second, offset - holds->first)};
    if (!piece.data.empty()) return piece;
  }
  if (segment == segments.end()) return {offset, {}};
  return {segment->first, read_from(segment->second, 0)};
}

}  // namespace

void read_output(const fs::path& worker_folder, AttemptId attempt, const LogQuery& query,
                 const LogService::Take& take) {
  const std::string name = to_string(attempt);
  std::uint64_t offset = query.offset;
  while (true) {
    // Looked up anew each time: it moves when the attempt is over.
    const fs::path folder = SupervisorHost::folder_of(worker_folder, name);
    if (folder.empty()) return;  // it printed nothing, or that is long gone
    const bool ended = read_end(folder.string()).has_value();
    LogPiece piece = next_piece(folder, query.stream, offset);
    if (!piece.data.empty()) {
      offset = piece.offset + piece.data.size();
      if (!take(piece)) return;
    } else if (ended || !query.follow) {
      return;
    } else {
      if (!take(piece)) return;
      std::this_thread::sleep_for(kFollowPeriod);
    }
  }
}

}  // namespace harmonics
