// Asking the loop and waiting for its answer (private to server).
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// How long a page waits for the loop.
inline constexpr std::chrono::seconds kLoopPatience(5);

/// The loop's answer, or nothing when it does not give that kind in time.
template <typename Kind>
std::optional<Kind> ask_loop(ServerLoop& loop, ClientRequest request) {
  const auto promise = std::make_shared<std::promise<ClientReply>>();
  auto answer = promise->get_future();
  loop.ask(std::move(request),
           [promise](ClientReply reply) { promise->set_value(std::move(reply)); });
  if (answer.wait_for(kLoopPatience) != std::future_status::ready) return std::nullopt;
  ClientReply reply = answer.get();
  Kind* wanted = std::get_if<Kind>(&reply);
  return wanted == nullptr ? std::nullopt : std::optional(std::move(*wanted));
}

}  // namespace harmonics::inline in_server
