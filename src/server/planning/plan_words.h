// A pipeline's plan for people and clients (private to server).
#pragma once

#include <string>
#include <vector>

namespace harmonics::inline in_server {

/// The plan without what only its stages may know, and with where its checkpoint is, or its
/// results. A text that is no plan gives an empty one.
[[nodiscard]] std::string public_plan(const std::string& plan);

/// Which stage runs where, how long it takes, and who was left out, in full sentences. `progress`:
/// the newest line of each stage (docs/formats/progress.md), whose measured periods are told too.
[[nodiscard]] std::string explain_plan(const std::string& plan,
                                       const std::vector<std::string>& progress = {});

}  // namespace harmonics::inline in_server
