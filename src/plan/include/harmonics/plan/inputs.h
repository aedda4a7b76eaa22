// The files that a plan is made from: models, device types, hosts and, optionally, links.
//
// docs/formats/planner_yaml.md describes them. Reading checks every rule of the format; errors name
// file, line and key (kInvalidArgument), and what can be mended is mended with a warning in the
// log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace harmonics::inline in_plan {

// Ceilings of the files; larger ones are refused before anything is built from them.
inline constexpr std::size_t kMaxPlannerFileBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxPlannerFileValues = 500'000;
inline constexpr std::size_t kMaxPlannerFileDepth = 12;
/// Layer sizes beyond this lose digits as doubles.
inline constexpr std::int64_t kMaxParameters = std::int64_t{1} << 53;
inline constexpr std::int64_t kMaxPlannedBatch = std::int64_t{1} << 31;

/// Megabytes of each layer of a model that was measured for training.
struct TrainingMegabytes {
  /// Weights, gradients and what the optimiser keeps.
  std::vector<double> fixed_mb = {};
  /// Of one micro-batch, from its forward to its backward pass; without what enters the layer.
  std::vector<double> kept_mb = {};
  /// For moments of a pass, besides.
  std::vector<double> scratch_mb = {};

  [[nodiscard]] bool known() const { return !fixed_mb.empty(); }
  bool operator==(const TrainingMegabytes&) const = default;
};

/// One model: memory and output size of each layer.
struct ModelProfile {
  std::vector<double> memory_mb;
  /// Numbers (not bytes) per sample: into the first layer, and out of each.
  std::int64_t parameters_in = 0;
  std::vector<std::int64_t> parameters_out;
  /// Numbers that a cut behind each layer makes travel with every micro-batch, whatever its size:
  /// tied parameters that learn. Empty: none.
  std::vector<std::int64_t> tied_out = {};
  /// Of a model that was measured for generation: bytes of cache that each layer keeps for a token,
  /// and its memory is that of the weights alone. Empty: it was not.
  std::vector<std::int64_t> cache_bytes = {};
  /// What `memory_mb` is made of, where that was measured.
  TrainingMegabytes training = {};

  [[nodiscard]] std::size_t layers() const { return memory_mb.size(); }
  bool operator==(const ModelProfile&) const = default;
};

/// What was measured on one device type for one model: seconds per layer and micro-batch.
struct LayerTimes {
  std::int64_t batch_size = 1;
  std::string dtype;
  std::vector<double> time_s;
  /// Of a measurement of training: the part of each time that is the forward pass. Empty: not
  /// known.
  std::vector<double> forward_s = {};
  /// How far each time may be off, as a share of it. Empty: not known.
  std::vector<double> spread = {};

  bool operator==(const LayerTimes&) const = default;
};

/// The same of a step of generation: so many sequences, so many tokens of each (1: they decode),
/// behind so many that are in the cache.
struct TokenTimes {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;
  std::int64_t context = 0;
  std::vector<double> time_s;

  bool operator==(const TokenTimes&) const = default;
};
using TokenTimesList = std::vector<TokenTimes>;

struct DeviceTypeProfile {
  double bandwidth_mbps = 0;
  double memory_mb = 0;
  std::map<std::string, std::vector<LayerTimes>> models = {};
  /// How fast tensors are packed to eight bits, or unpacked, in megabits of float32 a second; 0:
  /// not measured.
  double packing_mbps = 0;
  /// Cores that a stage keeps busy while it computes; counts where machines are shared.
  double cores = 1;
  /// What a host costs an hour, in any currency, and what it draws while a plan uses it; 0: not
  /// said.
  double price_per_hour = 0;
  double watts = 0;
  std::map<std::string, TokenTimesList> generation = {};

  bool operator==(const DeviceTypeProfile&) const = default;
};

/// A limit on what flows between two ends. An end is a host, a group or a device type.
struct LinkRule {
  std::string first;
  std::string second;
  double bandwidth_mbps = 0;
  /// Until the first byte has arrived.
  double latency_ms = 0;

  bool operator==(const LinkRule&) const = default;
};

/// A machine that several hosts stand for: their stages share its cores.
struct MachineRule {
  double cores = 0;
  std::vector<std::string> hosts;

  bool operator==(const MachineRule&) const = default;
};

struct LinkTable {
  std::map<std::string, std::vector<std::string>> groups;  // hosts by group
  std::vector<LinkRule> rules;
  std::map<std::string, MachineRule> machines = {};

  bool operator==(const LinkTable&) const = default;
};

using ModelTable = std::map<std::string, ModelProfile>;
using DeviceTypeTable = std::map<std::string, DeviceTypeProfile>;
/// Hosts by device type.
using HostTable = std::map<std::string, std::vector<std::string>>;

/// Everything together.
struct PlanInputs {
  ModelTable models;
  DeviceTypeTable types;
  HostTable hosts;
  LinkTable links;
};

/// Where the files are; an empty path of links means that there are none.
struct PlanInputFiles {
  std::filesystem::path models = "models.yml";
  std::filesystem::path types = "device_types.yml";
  std::filesystem::path hosts = "devices.yml";
  std::filesystem::path links = {};
};

[[nodiscard]] PlanInputs read_plan_inputs(const PlanInputFiles& files);

/// Each from its text; `name` is the file's name in errors. Layer times are compared with the
/// number of layers of the models that are given, host types with the types.
[[nodiscard]] ModelTable parse_models(std::string_view text, std::string_view name);
[[nodiscard]] DeviceTypeTable parse_device_types(std::string_view text, std::string_view name,
                                                 const ModelTable& models);
[[nodiscard]] HostTable parse_hosts(std::string_view text, std::string_view name,
                                    const DeviceTypeTable& types);
[[nodiscard]] LinkTable parse_links(std::string_view text, std::string_view name,
                                    const HostTable& hosts);

/// The same as text that reads back to an equal value.
[[nodiscard]] std::string models_to_yaml(const ModelTable& models);
[[nodiscard]] std::string device_types_to_yaml(const DeviceTypeTable& types);
[[nodiscard]] std::string hosts_to_yaml(const HostTable& hosts);
[[nodiscard]] std::string links_to_yaml(const LinkTable& links);

/// Bytes of one number of a PyTorch dtype such as "torch.float32". An unknown one is an `Error`
/// that lists what there is.
[[nodiscard]] std::int64_t plan_dtype_bytes(std::string_view dtype);

}  // namespace harmonics::inline in_plan
