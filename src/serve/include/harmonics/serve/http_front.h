// HttpFront: the Open Inference Protocol (version 2) over HTTP, in front of a service.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <harmonics/serve/inference_service.h>
#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

/// How long whoever asked has for taking the last answers when a service ends.
inline constexpr std::chrono::milliseconds kFarewell{5000};

/// Answers /v2, /v2/health/{live,ready}, /v2/models/NAME[/versions/1][/ready|/infer] and /metrics
/// from construction on. Health and metrics need no token.
class HttpFront {
 public:
  /// An Error when it cannot listen there. `service` must outlive it.
  HttpFront(InferenceService& service, const ListenAddress& address, const FrontAccess& access);
  /// Ends the service, and gives those who asked kFarewell to take their answers.
  ~HttpFront();
  HttpFront(const HttpFront&) = delete;
  HttpFront& operator=(const HttpFront&) = delete;

  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_serve
