#include <harmonics/place/profile_files.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_place {
namespace {

ModelProfile largest_memory(std::span<const GraphProfile> profiles) {
  ModelProfile model = profiles.front().model();
  for (const GraphProfile& profile : profiles.subspan(1)) {
    const ModelProfile other = profile.model();
    if (other.layers() != model.layers()) {
      fail(ErrorCode::kInvalidArgument, "profiles of one model with {} and {} layers",
           model.layers(), other.layers());
    }
    for (const auto& [most, one] :
         {std::pair(&model.memory_mb, &other.memory_mb),
          std::pair(&model.training.fixed_mb, &other.training.fixed_mb),
          std::pair(&model.training.kept_mb, &other.training.kept_mb),
          std::pair(&model.training.scratch_mb, &other.training.scratch_mb)}) {
      std::ranges::transform(*most, *one, most->begin(),
                             [](double a, double b) { return std::max(a, b); });
    }
  }
  return model;
}

void warn_of_dropped(const std::string& type, std::size_t dropped, const std::string& model,
                     std::size_t layers) {
  log_warn("place",
           "device type '{}': {} measurement(s) of '{}' dropped, the model has {} layers now: "
           "measure it there again",
           type, dropped, model, layers);
}

void drop_other_lengths(DeviceTypeTable& types, const std::string& model, std::size_t layers) {
  for (auto& [type, profile] : types) {
    const auto found = profile.models.find(model);
    if (found == profile.models.end()) continue;
    const std::size_t dropped = std::erase_if(
        found->second, [&](const LayerTimes& times) { return times.time_s.size() != layers; });
    if (dropped > 0) warn_of_dropped(type, dropped, model, layers);
  }
}

void replace_times(std::vector<LayerTimes>& all, LayerTimes times) {
  const auto same = [&](const LayerTimes& other) {
    return other.batch_size == times.batch_size && other.dtype == times.dtype;
  };
  const auto found = std::ranges::find_if(all, same);
  if (found != all.end()) {
    *found = std::move(times);
  } else {
    all.push_back(std::move(times));
  }
}

std::string shapes_text(std::span<const Shape> shapes) {
  const auto axis_text = [](std::int64_t axis) { return std::to_string(axis); };
  const auto one = [&](const Shape& shape) {
    return format("[{}]", joined(shape, ", ", axis_text));
  };
  return format("[{}]", joined(shapes, ", ", one));
}

std::string text_if_there(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  return read_text_file(path, kMaxPlannerFileBytes);
}

}  // namespace

ProfileTables read_profile_tables(const ProfileFiles& files) {
  ProfileTables tables;
  const std::string models = text_if_there(files.models);
  if (!models.empty()) tables.models = parse_models(models, files.models.string());
  const std::string types = text_if_there(files.types);
  if (!types.empty()) tables.types = parse_device_types(types, files.types.string(), {});
  return tables;
}

std::optional<double> known_bandwidth(const ProfileTables& tables, const std::string& type) {
  const auto known = tables.types.find(type);
  if (known == tables.types.end()) return std::nullopt;
  return known->second.bandwidth_mbps;
}

void merge_generation(ProfileTables& tables, const std::string& model,
                      const MeasuredMachine& machine, const ModelProfile& profile,
                      const TokenTimesList& times) {
  tables.models[model] = profile;
  for (auto& [name, type] : tables.types) {
    const auto found = type.generation.find(model);
    if (found == type.generation.end()) continue;
    const std::size_t dropped = std::erase_if(found->second, [&](const TokenTimes& one) {
      return one.time_s.size() != profile.layers();
    });
    if (dropped > 0) warn_of_dropped(name, dropped, model, profile.layers());
  }
  DeviceTypeProfile& type = tables.types[machine.type];
  type.bandwidth_mbps = machine.bandwidth_mbps;
  type.memory_mb = machine.memory_mb;
  TokenTimesList& all = type.generation[model];
  for (const TokenTimes& one : times) {
    std::erase_if(all, [&](const TokenTimes& other) {
      return other.sequences == one.sequences && other.tokens == one.tokens &&
             other.context == one.context;
    });
    all.push_back(one);
  }
}

void merge_profiles(ProfileTables& tables, const std::string& model, const MeasuredMachine& machine,
                    std::span<const GraphProfile> profiles) {
  ModelProfile merged = largest_memory(profiles);
  drop_other_lengths(tables.types, model, merged.layers());
  tables.models[model] = std::move(merged);
  DeviceTypeProfile& type = tables.types[machine.type];
  type.bandwidth_mbps = machine.bandwidth_mbps;
  type.memory_mb = machine.memory_mb;
  if (machine.packing_mbps > 0) type.packing_mbps = machine.packing_mbps;
  for (const GraphProfile& profile : profiles) replace_times(type.models[model], profile.times());
}

std::string results_to_yaml(const std::string& model, std::span<const GraphProfile> profiles) {
  std::string text;
  for (const GraphProfile& profile : profiles) {
    text += text.empty() ? "" : "---\n";
    text += format("model_name: {}\ndtype: {}\nbatch_size: {}\nmode: {}\nlayers: {}\n",
                   json_quote(model), profile.dtype, profile.batch_size,
                   profile_mode_name(profile.mode), profile.units.size());
    text += "profile_data:\n";
    for (std::size_t i = 0; i < profile.units.size(); ++i) {
      const UnitProfile& unit = profile.units[i];
      text += format("- layer: {}\n  name: {}\n  time: {}\n  memory: {}\n", i + 1,
                     json_quote(unit.name), unit.time_s,
                     static_cast<double>(unit.memory.total()) / kBytesPerMegabyte);
      text += format("  shape_in: {}\n  shape_out: {}\n", shapes_text(unit.shapes_in),
                     shapes_text(unit.shapes_out));
    }
  }
  return text;
}

void write_profile_files(const ProfileFiles& files, const ProfileTables& tables,
                         const std::string& results) {
  if (!files.results.empty()) write_text_file(files.results, results);
  write_text_file(files.types, device_types_to_yaml(tables.types));
  write_text_file(files.models, models_to_yaml(tables.models));
}

}  // namespace harmonics::inline in_place
