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
                                 const RemoteBinding& place,
                                 RemoteOptions options = test_remote()) {
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
  at_place(copy_links(copies, part.name()), entering);
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

/// How copies learn.
struct Lesson {
  PipelineOrder order = PipelineOrder::OneForwardOneBackward;
  std::int64_t epochs = 2;
  FitOptions options = {};
  bool resumes = false;
};

/// What each copy came to, all on threads of their own, by part and copy.
inline std::vector<std::vector<NamedTensors>> learn_copies(const Trial& trial,
                                                           const RemoteBinding& place,
                                                           const Lesson& lesson) {
  std::vector<std::vector<NamedTensors>> learnt(trial.parts.size());
  std::vector<std::function<void()>> actions;
  for (std::size_t part = 0; part < trial.parts.size(); ++part) {
    learnt[part].resize(trial.weights[part].size());
    for (std::size_t copy = 0; copy < trial.weights[part].size(); ++copy) {
      actions.push_back([&, part, copy] {
        const HarmonicGraph& graph = trial.parts[part];
        PartCopies copies = copies_of(trial.parts, trial.weights, part, copy);
        copies.learns = true;
        RemoteOptions remote = test_remote();
        remote.pipeline.order = lesson.order;
        RemoteScheduler scheduler = make_copy(graph, copies, place, remote);
        for (const auto& [name, data] : data_of(graph, trial.data)) {
          scheduler.bindProducer(name, data);
        }
        FitOptions options = lesson.options;
        if (!lesson.options.evaluation.empty()) options.evaluation = data_of(graph, trial.data);
        if (!options.checkpoint.empty()) {
          EXPECT_EQ(scheduler.resume(lesson.resumes ? options.checkpoint : ""), lesson.resumes);
        }
        scheduler.fit(lesson.epochs, options);
        for (const auto& [name, tensor] : scheduler.parameters()) {
          const Tensor copied = concat_rows(std::span(&tensor, 1));
          learnt[part][copy].emplace(name, copied);
        }
      });
    }
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(actions.size()));
  return learnt;
}

/// Of all parts, whose copies must be alike.
inline std::string digest_of(const std::vector<std::vector<NamedTensors>>& learnt) {
  NamedTensors all;
  for (const std::vector<NamedTensors>& copies : learnt) {
    for (const NamedTensors& copy : copies) {
      EXPECT_EQ(weights_digest(copy), weights_digest(copies.front()));
    }
    all.insert(copies.front().begin(), copies.front().end());
  }
  return weights_digest(all);
}

}  // namespace harmonics::inline in_schedule
