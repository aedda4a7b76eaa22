// The profiler's files: measurements merged into models.yml and device_types.yml, and the results
// with every shape. docs/formats/planner_yaml.md and README_Profiler.md describe them.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <harmonics/place/profile_result.h>
#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_place {

struct ProfileFiles {
  std::filesystem::path models = "models.yml";
  std::filesystem::path types = "device_types.yml";
  /// Empty: none.
  std::filesystem::path results = "profiler_results.yml";
};

/// What a machine is, in the planner's terms.
struct MeasuredMachine {
  std::string type;
  double bandwidth_mbps = 0;
  double memory_mb = 0;
  /// How fast it packs a boundary's tensors; 0: not measured.
  double packing_mbps = 0;
};

/// The tables that are in the files; a file that does not exist holds an empty one. The lengths of
/// layer times are not compared with the models: a merge mends them.
struct ProfileTables {
  ModelTable models;
  DeviceTypeTable types;
};
[[nodiscard]] ProfileTables read_profile_tables(const ProfileFiles& files);

/// What is on file of a device type's network.
[[nodiscard]] std::optional<double> known_bandwidth(const ProfileTables& tables,
                                                    const std::string& type);

/// Adds what was measured of a model that generates, likewise: a measurement with the same numbers
/// of sequences and tokens and the same context is replaced.
void merge_generation(ProfileTables& tables, const std::string& model,
                      const MeasuredMachine& machine, const ModelProfile& profile,
                      const TokenTimesList& times);

/// Adds the measurements of one model on one machine (at least one, all of the same graph).
/// - The model's entry is replaced. Its memory is the largest of the measurements, layer by layer.
/// - The machine's bandwidth and memory are replaced; its times for the same model, batch size and
///   dtype too. Other models, types, batch sizes and dtypes stay as they are.
/// - Times of the same model with another number of layers belong to another graph: they are
///   dropped, on every type, with a warning.
void merge_profiles(ProfileTables& tables, const std::string& model, const MeasuredMachine& machine,
                    std::span<const GraphProfile> profiles);

/// One YAML document per measurement: model_name, dtype, batch_size, mode, layers, and profile_data
/// with layer, name, time, memory, shape_in and shape_out of each.
[[nodiscard]] std::string results_to_yaml(const std::string& model,
                                          std::span<const GraphProfile> profiles);

/// Writes all files, each whole or not at all.
void write_profile_files(const ProfileFiles& files, const ProfileTables& tables,
                         const std::string& results);

}  // namespace harmonics::inline in_place
