// For tests: parts of a graph, each in several copies.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "stream_testing.h"

namespace harmonics::inline in_schedule {

/// The weights of each part's copies.
using Weights = std::vector<std::vector<std::uint32_t>>;

/// Which part sends a boundary.
inline std::size_t sender_of(const std::vector<HarmonicGraph>& parts, const std::string& boundary) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const ConsumerNode& node : parts[i].consumers()) {
      if (node.name == boundary) return i;
    }
  }
  throw std::logic_error(boundary);
}

inline std::size_t taker_of(const std::string& boundary) {
  return std::stoul(boundary.substr(boundary.rfind('@') + 1));
}

inline PartCopies copies_of(const std::vector<HarmonicGraph>& parts, const Weights& weights,
                            std::size_t part, std::size_t copy) {
  PartCopies copies{CopyTurns(weights[part]), copy, {}};
  for (const ProducerNode& node : parts[part].producers()) {
    if (!is_boundary_name(node.name)) continue;
    copies.others.emplace(node.name, CopyTurns(weights[sender_of(parts, node.name)]));
  }
  for (const ConsumerNode& node : parts[part].consumers()) {
    if (!is_boundary_name(node.name)) continue;
    copies.others.emplace(node.name, CopyTurns(weights[taker_of(node.name)]));
  }
  return copies;
}

inline RemoteScheduler make_copy(const HarmonicGraph& part, const PartCopies& copies,
                                 const RemoteBinding& place) {
  RemoteOptions options = test_remote();
  options.copies = copies;
  std::vector<RemoteBinding> entering, leaving;
  const auto at_place = [&](const std::vector<std::string>& names, auto& ends) {
    for (const std::string& name : names) {
      ends.push_back(place);
      ends.back().name = name;
    }
  };
  for (const ProducerNode& node : part.producers()) {
    if (is_boundary_name(node.name)) at_place(entering_channels(copies, node.name), entering);
  }
  for (const ConsumerNode& node : part.consumers()) {
    if (is_boundary_name(node.name)) at_place(leaving_channels(copies, node.name), leaving);
  }
  return RemoteScheduler(part, entering, leaving, {}, options);
}

/// What is tried.
struct Trial {
  std::vector<HarmonicGraph> parts;
  Weights weights;
  StreamOptions options = {};
  DataOf data = plain_data;
};

}  // namespace harmonics::inline in_schedule
