// What the profiler found: numbers only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/place/profile_memory.h>
#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_place {

/// One unit (a group of layers) as it was measured.
struct UnitProfile {
  std::string name;
  /// Median seconds per micro-batch: the forward pass, in training the backward pass too.
  double time_s = 0;
  /// Training: the part of it that is the forward pass.
  double forward_s = 0;
  /// Half the width of the middle half of the passes, as a share of `time_s`: how far it may be
  /// off.
  double spread = 0;
  /// The share of the passes' time for which they waited for a core, which `time_s` leaves out.
  double waited = 0;
  UnitMemory memory;
  /// Trainable numbers.
  std::int64_t parameters = 0;
  /// What enters and what leaves, without the batch axis.
  std::vector<Shape> shapes_in;
  std::vector<Shape> shapes_out;
};

/// All units of a graph under one choice of batch size and dtype.
struct GraphProfile {
  std::int64_t batch_size = 0;
  std::string dtype;
  ProfileMode mode = ProfileMode::kInference;
  std::vector<UnitProfile> units;
  /// Numbers per sample that enter the graph, and that are alive across the cut behind each unit.
  std::int64_t parameters_in = 0;
  std::vector<std::int64_t> parameters_out;
  /// Numbers that a cut behind each unit makes travel because of ties, in training; empty: none.
  std::vector<std::int64_t> tied_out;

  /// The same in the terms of models.yml and device_types.yml.
  [[nodiscard]] ModelProfile model() const;
  [[nodiscard]] LayerTimes times() const;
  /// Of all units' time together, the share for which they waited for a core.
  [[nodiscard]] double waited() const;
  /// Seconds of all units.
  [[nodiscard]] double total_s() const;
};

}  // namespace harmonics::inline in_place
