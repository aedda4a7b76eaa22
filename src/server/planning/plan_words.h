// A pipeline's plan for people and clients (private to server).
#pragma once

#include <string>

namespace harmonics::inline in_server {

/// The plan without what only its stages may know, and with where its checkpoint is. A text that is
/// no plan gives an empty one.
[[nodiscard]] std::string public_plan(const std::string& plan);

/// Which stage runs where, how long it takes, and who was left out, in full sentences.
[[nodiscard]] std::string explain_plan(const std::string& plan);

}  // namespace harmonics::inline in_server
