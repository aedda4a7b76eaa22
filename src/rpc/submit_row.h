// Many submits under way at once (private to rpc).
#pragma once

#include <vector>

#include "client_parts.h"

namespace harmonics::inline in_rpc {

/// So many wait for their answer at one time.
inline constexpr std::size_t kMaxSubmitsAtOnce = 128;

/// Owned by one thread.
class SubmitRow {
 public:
  /// `outcomes` has the size of `specs`.
  SubmitRow(ClusterClient::Parts& client, const std::vector<TaskSpec>& specs,
            std::vector<SubmitOutcome>& outcomes);
  /// Until each has its outcome.
  void run();

 private:
  struct Call {
    std::size_t at = 0;
    grpc::ClientContext context{};
    wire::SubmitReply reply{};
    grpc::Status status{};
    std::unique_ptr<grpc::ClientAsyncResponseReader<wire::SubmitReply>> reader{};
  };
  void start(std::size_t at);
  void take(const Call& call);
  /// Why a call failed; that the server cannot be reached is found out once.
  [[nodiscard]] Error error_of(const grpc::Status& status);

  ClusterClient::Parts& client_;
  const std::vector<TaskSpec>& specs_;
  std::vector<SubmitOutcome>& outcomes_;
  std::vector<std::unique_ptr<Call>> calls_;  ///< Under way; the others are null.
  std::size_t under_way_ = 0;
  std::optional<Error> stop_;  ///< Set: what is not sent yet ends with this.
  CallWait wait_;
};

}  // namespace harmonics::inline in_rpc
