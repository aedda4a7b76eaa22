// Stage: one graph, or one part of it, with its weights, ready to compute micro-batches.
//
// The level below CycleRuntime and the schedulers: it knows no data source, no epoch and no other
// part. Boundary tensors go in and out by name; gradients travel the same boundaries backwards.
#pragma once

#include <memory>
#include <string>

#include <harmonics/custody/digest.h>
#include <harmonics/runtime/stage_backend.h>

namespace harmonics::inline in_runtime {

/// Owns what computes it, on the device that the options ask for; stage_backend.h says what that
/// can do.
///
///     Stage stage(graph, options);
///     stage->infer(inputs);
class Stage {
 public:
  /// The graph must be resolved.
  Stage(HarmonicGraph graph, const RuntimeOptions& options);

  [[nodiscard]] StageBackend& operator*() { return *backend_; }
  [[nodiscard]] const StageBackend& operator*() const { return *backend_; }
  [[nodiscard]] StageBackend* operator->() { return backend_.get(); }
  [[nodiscard]] const StageBackend* operator->() const { return backend_.get(); }

 private:
  std::unique_ptr<StageBackend> backend_;
};

/// SHA-256 over name, dtype, shape and little-endian bytes of all tensors in name order: equal
/// exactly when two sets of weights are.
[[nodiscard]] Digest weights_root(const NamedTensors& weights);
/// The same as 64 hexadecimal digits.
[[nodiscard]] std::string weights_digest(const NamedTensors& weights);

}  // namespace harmonics::inline in_runtime
