#include "built_in_task.h"

#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_cluster_program {

std::vector<std::string> gang_hosts(const std::string& peers) {
  std::vector<std::string> hosts;
  std::istringstream list(peers);
  for (std::string peer; std::getline(list, peer, ',');) {
    const std::size_t equals = peer.rfind('=');
    const std::size_t colon = peer.rfind(':');
    if (equals == peer.npos || colon == peer.npos || colon < equals) {
      fail(ErrorCode::kInvalidArgument, "{}: '{}' is no NAME=HOST:PORT", kGangPeersVariable, peer);
    }
    hosts.push_back(peer.substr(equals + 1, colon - equals - 1));
  }
  return hosts;
}

void announce(const std::vector<std::string>& words) {
  std::string line = "harmonics";
  for (const std::string& word : words) line += " " + word;
  write_text(TextStream::kError, line + "\n");
}

}  // namespace harmonics::inline in_cluster_program
