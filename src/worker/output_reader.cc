#include "output_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <map>
#include <thread>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>

#include "supervisor/run_record.h"
#include "supervisor/supervisor_host.h"

namespace harmonics::inline in_worker {
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
    const auto start = number_from<std::uint64_t>(name.substr(stream.size() + 1));
    if (start) segments.emplace(*start, entry.path());
  }
  return segments;
}

std::string read_from(const fs::path& path, std::uint64_t offset) {
  std::string data(kMaxOutputPieceBytes, '\0');
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const ssize_t got = ::pread(file.get(), data.data(), data.size(), static_cast<off_t>(offset));
  data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return data;
}

/// The next piece at or after `offset`; empty when there is none yet.
OutputPiece next_piece(const fs::path& folder, const std::string& stream, std::uint64_t offset) {
  const auto segments = segments_of(folder, stream);
  auto segment = segments.upper_bound(offset);
  if (segment != segments.begin()) {
    const auto holds = std::prev(segment);
    OutputPiece piece{offset, read_from(holds->second, offset - holds->first)};
    if (!piece.data.empty()) return piece;
  }
  if (segment == segments.end()) return {offset, {}};
  return {segment->first, read_from(segment->second, 0)};
}

void read_artifact_list(const fs::path& folder, const OutputQuery& query,
                        const OutputService::Take& take) {
  OutputPiece piece{query.offset, {}};
  for (const Artifact& artifact : list_artifacts(folder.string())) {
    piece.data += Json().set("path", artifact.path).set("bytes", artifact.bytes).dump() + "\n";
    if (piece.data.size() < kMaxOutputPieceBytes / 2) continue;
    if (!take(piece)) return;
    piece = {piece.offset + piece.data.size(), {}};
  }
  if (!piece.data.empty()) take(piece);
}

void read_artifact(const fs::path& folder, const OutputQuery& query,
                   const OutputService::Take& take) {
  const auto file = find_artifact(folder.string(), query.path);
  if (!file) fail(ErrorCode::kNotFound, "the task left no artifact '{}'", query.path);
  std::uint64_t left = query.limit == 0 ? std::numeric_limits<std::uint64_t>::max() : query.limit;
  std::uint64_t offset = query.offset;
  while (left > 0) {
    OutputPiece piece{offset, read_from(*file, offset)};
    if (piece.data.size() > left) piece.data.resize(left);
    if (piece.data.empty() || !take(piece)) return;
    offset += piece.data.size();
    left -= piece.data.size();
  }
}

}  // namespace

void read_output(const fs::path& worker_folder, AttemptId attempt, const OutputQuery& query,
                 const OutputService::Take& take) {
  const std::string name = to_string(attempt);
  if (query.stream == "artifacts" || query.stream == "artifact") {
    const fs::path folder = SupervisorHost::folder_of(worker_folder, name);
    const bool listed = query.stream == "artifacts";
    if (folder.empty() && listed) return;  // it left nothing, or that is long gone
    if (folder.empty()) {
      fail(ErrorCode::kNotFound, "attempt {} left nothing, or what it left is no longer kept",
           name);
    }
    if (!read_end(folder.string())) {
      fail(ErrorCode::kFailedPrecondition,
           "attempt {} still runs: its artifacts are gathered when it ends", name);
    }
    return listed ? read_artifact_list(folder, query, take) : read_artifact(folder, query, take);
  }
  std::uint64_t offset = query.offset;
  while (true) {
    // Looked up anew each time: it moves when the attempt is over.
    const fs::path folder = SupervisorHost::folder_of(worker_folder, name);
    if (folder.empty()) return;  // it printed nothing, or that is long gone
    const bool ended = read_end(folder.string()).has_value();
    OutputPiece piece = next_piece(folder, query.stream, offset);
    if (!piece.data.empty()) {
      offset = piece.offset + piece.data.size();
      if (!take(piece)) return;
    } else if (ended || !query.follow) {
      std::error_code error;
      if (ended || fs::exists(folder, error)) return;
      // It moved while we read: there may be more.
    } else {
      if (!take(piece)) return;
      std::this_thread::sleep_for(kFollowPeriod);
    }
  }
}

}  // namespace harmonics::inline in_worker
