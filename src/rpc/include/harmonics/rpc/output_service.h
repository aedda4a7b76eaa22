// Where a worker serves what its tasks print, and how the server reads it there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/rpc/tls.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

/// Largest piece of a log that goes over the wire at once.
inline constexpr std::size_t kMaxOutputPieceBytes = 256 << 10;

/// Listens from construction on. `read` is called by threads of the service (at most
/// kMaxOutputReaders at a time): it hands pieces to `take` until there is no more, or `take` says
/// no.
class OutputService {
 public:
  using Take = std::function<bool(const OutputPiece&)>;
  using Read = std::function<void(AttemptId, const OutputQuery&, const Take&)>;

  struct Options {
    std::string address;  ///< "localhost:0"
    std::string token;    ///< Readers must show it.
    std::optional<TlsFiles> tls;
  };
  OutputService(const Options& options, Read read);
  ~OutputService();
  OutputService(const OutputService&) = delete;
  OutputService& operator=(const OutputService&) = delete;

  /// The address with the port that it really has.
  [[nodiscard]] std::string address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_rpc
