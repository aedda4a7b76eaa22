// ParameterStore: a server's parameters, their versions and their file (private to schedule).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <harmonics/runtime/parameter_set.h>
#include <harmonics/schedule/parameter_server.h>

#include "parameter_wire.h"

namespace harmonics::inline in_schedule {

/// One worker's gradients of one step.
struct Contribution {
  NamedTensors gradients;
  GradientWeight weight;
};

/// One thread.
class ParameterStore {
 public:
  /// Starts from options.restore where it names a file.
  ParameterStore(const NamedTensors& start, const ParameterServerOptions& options);

  /// One update from the sum of these, in this order. Each sample that came weighs the same,
  /// however many were to come: gradients of an incomplete batch count as those of a smaller one.
  void apply(std::span<const Contribution> contributions);

  [[nodiscard]] std::int64_t version() const { return version_; }
  /// The values of this version; they never change.
  [[nodiscard]] const NamedTensors& values() const { return values_; }
  void save(const std::filesystem::path& path) const;

 private:
  void load(const std::filesystem::path& path);

  ParameterServerOptions options_;
  ParameterSet set_;
  NamedTensors values_;
  std::int64_t version_ = 0;
};

}  // namespace harmonics::inline in_schedule
