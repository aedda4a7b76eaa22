#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/transport/bus.h>

#include "reduction_shape.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::array<std::pair<Reduction, std::string_view>, 3> kReductionNames = {{
    {Reduction::Chain, "chain"},
    {Reduction::Tree, "tree"},
    {Reduction::Ring, "ring"},
}};

std::string link_name(const std::string& name, std::size_t a, std::size_t b) {
  return format("{}/{}-{}", name, std::min(a, b), std::max(a, b));
}

}  // namespace

Reduction reduction_from_name(std::string_view name) {
  for (const auto& [order, known] : kReductionNames) {
    if (known == name) return order;
  }
  fail(ErrorCode::kInvalidArgument, "there is no reduction '{}'; choose chain, tree or ring", name);
}

std::string_view reduction_name(Reduction order) {
  for (const auto& [known, name] : kReductionNames) {
    if (known == order) return name;
  }
  return "?";
}

ReductionTree reduction_tree(Reduction order, std::size_t rank, std::size_t ranks) {
  ReductionTree tree;
  if (order == Reduction::Chain) {
    if (rank > 0) tree.children = {rank - 1};
    if (rank + 1 < ranks) tree.parent = rank + 1;
    return tree;
  }
  if (rank > 0) tree.parent = (rank - 1) / 2;
  for (const std::size_t child : {2 * rank + 1, 2 * rank + 2}) {
    if (child < ranks) tree.children.push_back(child);
  }
  return tree;
}

std::vector<std::size_t> reduction_peers(Reduction order, std::size_t rank, std::size_t ranks) {
  if (ranks < 1 || ranks > kMaxReductionRanks || rank >= ranks) {
    fail(ErrorCode::kInvalidArgument,
         "rank {} of {}: a reduction has 1 to {} ranks, numbered from 0", rank, ranks,
         kMaxReductionRanks);
  }
  std::set<std::size_t> peers;
  if (order == Reduction::Ring) {
    peers = {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
    peers.erase(rank);
  } else {
    const ReductionTree tree = reduction_tree(order, rank, ranks);
    peers.insert(tree.children.begin(), tree.children.end());
    if (tree.parent) peers.insert(*tree.parent);
  }
  return {peers.begin(), peers.end()};
}

std::vector<ReductionEnds> make_bus_ends(Reduction order, std::size_t ranks) {
  std::vector<ReductionEnds> all(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all[rank].rank = rank;
    all[rank].ranks = ranks;
    for (const std::size_t peer : reduction_peers(order, rank, ranks)) {
      if (peer < rank) continue;
      auto [low, high] = make_bus(link_name("replicas", rank, peer));
      all[rank].peers.emplace(peer, std::move(low));
      all[peer].peers.emplace(rank, std::move(high));
    }
  }
  return all;
}

ReductionEnds make_remote_ends(Reduction order, std::size_t rank,
                               const std::vector<RemoteBinding>& places, const std::string& name,
                               const TransportOptions& options) {
  ReductionEnds ends{rank, places.size(), {}};
  for (const std::size_t peer : reduction_peers(order, rank, places.size())) {
    RemoteBinding binding = places[std::min(rank, peer)];
    binding.name = link_name(name, rank, peer);
    // Several links meet at one place. If whoever came first listened, it would keep the place from
    // the others' links: the rank whose place it is must have it, whoever starts first.
    if (!binding.listen) binding.listen = rank < peer;
    ends.peers.emplace(peer, make_transport(binding, options));
  }
  return ends;
}

}  // namespace harmonics::inline in_schedule
