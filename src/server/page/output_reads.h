// Output that pages ask for, read from workers beside the loop (private to server).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/rpc/tls.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_server {

/// Of one answer.
inline constexpr std::size_t kMaxOutputAnswer = 1 << 20;
/// Of an artifact that a page hands over; larger ones are fetched with 'harmonics artifacts'.
inline constexpr std::size_t kMaxPageArtifact = std::size_t{64} << 20;
/// Reads that wait for a thread.
inline constexpr std::size_t kMaxWaitingReads = 64;

/// What was read: bytes of the stream from `offset` on.
struct OutputAnswer {
  std::uint64_t offset = 0;
  std::string bytes{};
  std::string problem{};  ///< Not empty: why there is nothing.
};

/// A few threads, so that a worker that is slow holds up nobody else.
class OutputReads {
 public:
  explicit OutputReads(std::optional<TlsFiles> tls);
  /// Waits for reads that are under way; those that wait are not answered.
  ~OutputReads();
  OutputReads(const OutputReads&) = delete;
  OutputReads& operator=(const OutputReads&) = delete;

  struct Read {
    OutputPlace place;
    OutputQuery query;
    std::size_t most = kMaxOutputAnswer;
    bool tail = false;  ///< The last `most` bytes instead of the first.
    std::function<void(OutputAnswer)> done;
  };
  /// False: too many wait. Never waits itself; one thread alone, the loop's.
  [[nodiscard]] bool start(Read read);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_server
