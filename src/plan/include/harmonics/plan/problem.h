// One planning problem in plain numbers: a chain of layers and the hosts that may run it.
//
// Layers are numbered from 0 inside the planner. Cut i lies in front of layer i, so that a stage is
// a pair of cuts (first, last] and a model of L layers has the cuts 0..L. Files and plans that
// people read count layers from 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_plan {

// Ceilings of what a problem may hold; the readers of the files enforce them too.
inline constexpr std::size_t kMaxPlanLayers = 20'000;
inline constexpr std::size_t kMaxHostClasses = 1'000;
inline constexpr std::size_t kMaxPlanHosts = 60'000;

/// Hosts that nothing in the problem tells apart: one device type, the same links, the same rules.
struct HostClass {
  std::string type;
  std::vector<std::string> hosts;
  double bandwidth_mbps = 0;
  double memory_mb = 0;
  /// Seconds per layer and micro-batch.
  std::vector<double> layer_time_s;
  /// Layers that these hosts must not run; empty when they may run all.
  std::vector<bool> barred;
  /// Cores that a stage keeps busy while it computes.
  double cores = 1;
  /// What one of these hosts costs an hour, and what it draws; 0: not said.
  double price_per_hour = 0;
  double watts = 0;
  /// Where training was measured: the part of each layer's time that is the forward pass; and how
  /// far each time may be off, as a share of it. Empty: not known.
  std::vector<double> forward_time_s = {};
  std::vector<double> time_spread = {};
};

/// A machine that several hosts stand for: while they compute, its cores are shared.
struct SharedMachine {
  std::string name;
  double cores = 1;
  /// Of its hosts, each of which is a class of its own.
  std::vector<std::size_t> classes;
};

/// What the planner plans for. A value; checked by `check_problem`.
struct PlanProblem {
  std::string model;
  std::string dtype;
  std::int64_t batch_size = 1;
  /// Memory of each layer, in megabytes of 1024 * 1024 bytes.
  std::vector<double> layer_memory_mb;
  /// Bytes per micro-batch that cross each cut: one more than there are layers.
  std::vector<double> cut_bytes;
  /// Bytes of tied parameters that travel besides with each micro-batch where the model is cut
  /// there (their gradients; the parameters themselves go the other way, once a step). Empty: none.
  /// A tie over several cuts counts at each of them, though only the stages at its ends carry it:
  /// the period is that of the ends, or an upper bound where a stage between them has less
  /// bandwidth.
  std::vector<double> tied_bytes;
  std::vector<HostClass> classes;
  /// Bandwidth between a host of class u and another of class v at [u * classes.size() + v], on top
  /// of what their own bandwidths allow; symmetric. Empty: no further limits.
  std::vector<double> link_mbps;
  /// Seconds until the first byte has arrived, at the same places. Empty: none.
  std::vector<double> link_latency_s = {};
  /// Empty: every host has its cores for itself.
  std::vector<SharedMachine> machines = {};
  /// When not empty, stages follow this order of classes, each of which has one host; a class may
  /// be left out.
  std::vector<std::size_t> order;
  /// Of each layer, where training was measured.
  TrainingMegabytes training = {};

  [[nodiscard]] std::size_t layers() const { return layer_memory_mb.size(); }
};

/// Throws an `Error` (kInvalidArgument) unless every list has its length, every number is finite
/// and not negative, and the ceilings hold.
void check_problem(const PlanProblem& problem);

}  // namespace harmonics::inline in_plan
