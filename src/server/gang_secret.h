// What the members of a gang show each other (private to server).
#pragma once

#include <string>

#include <harmonics/cluster/ids.h>

namespace harmonics::inline in_server {

/// The same for all members of one attempt and for every start of this server, another for every
/// attempt; nobody without `key` can tell it. 64 hexadecimal digits.
[[nodiscard]] std::string gang_secret(const std::string& key, AttemptId attempt);

}  // namespace harmonics::inline in_server
