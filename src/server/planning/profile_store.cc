#include "profile_store.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/custody/digest.h>
#include <harmonics/server/state_folder.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxProfileBytes = std::size_t{16} << 20;

std::string key_of(const PipelineSpec& spec, const PlanPlace& place) {
  std::string key = format("{}\n{}\n{}\n{}", spec.graph, micro_batch_of(spec), place.devices.size(),
                           place.spec.identity.substr(0, place.spec.identity.find('@')));
  if (spec.infer) key += "\ninfer";
  for (const auto& [name, value] : spec.settings) {
    if (name == "threads" || name == "backend" || name == "precision") {
      key += format("\n{}={}", name, value);
    }
  }
  return digest_text(sha256(bytes_of(key)));
}

std::string profile_name(const PipelineSpec& spec, const PlanPlace& place) {
  return key_of(spec, place) + ".json";
}

/// Makes the folder, and room in it for `coming` files more. Another process may take files away at
/// the same time.
void make_room(const fs::path& folder, std::size_t coming) {
  make_state_folder(folder);
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::error_code gone;
    const fs::file_time_type used = entry.last_write_time(gone);
    if (!gone && entry.path().extension() == ".json") files.emplace_back(used, entry.path());
  }
  const std::size_t kept = kMaxMeasurementFiles - std::min(coming, kMaxMeasurementFiles);
  if (files.size() <= kept) return;
  const auto first_kept = files.end() - static_cast<std::ptrdiff_t>(kept);
  std::nth_element(files.begin(), first_kept, files.end());
  for (auto file = files.begin(); file != first_kept; ++file) {
    std::error_code ignored;
    fs::remove(file->second, ignored);
  }
}

/// What `read` makes of the file's JSON; a default where there is no file, or a broken one. The
/// file's time says when it was last of use.
template <typename Value>
Value read_cached(const fs::path& file, Value (*read)(const Json&)) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
  try {
    return read(Json::parse(read_text_file(file, kMaxProfileBytes), file.string()));
  } catch (const std::exception& error) {
    log_warn("server", "the measurement '{}' cannot be read and is not used: {}", file.string(),
             error.what());
    return {};
  }
}

std::optional<MeasuredWorker> read_profile(const Json& json) {
  MeasuredWorker worker;
  for (const Json& layer : json.at("profiles").as_array().at(0).at("layers").as_array()) {
    worker.unit_s.push_back(layer.at("time_s").as_number());
  }
  return worker;
}

TrainedPart read_part(const Json& layers, double seconds) {
  const std::int64_t first = layers.as_array().at(0).as_integer();
  const std::int64_t last = layers.as_array().at(1).as_integer();
  if (first < 1 || last < first || !(seconds > 0) || !std::isfinite(seconds)) {
    fail(ErrorCode::kDataLoss, "'{}' with {} s is no part of a graph with its time", layers.dump(),
         seconds);
  }
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last), seconds};
}

std::vector<TrainedPart> read_parts(const Json& json) {
  std::vector<TrainedPart> parts;
  for (const Json& one : json.at("parts").as_array()) {
    if (parts.size() == kMaxTrainedParts) fail(ErrorCode::kDataLoss, "too many parts");
    parts.push_back(read_part(one.at("layers"), one.at("micro_batch_s").as_number()));
  }
  return parts;
}

std::string write_parts(const std::vector<TrainedPart>& parts) {
  Json list = Json::array();
  for (const TrainedPart& part : parts) {
    Json layers = Json::array();
    layers.push(static_cast<std::int64_t>(part.first));
    layers.push(static_cast<std::int64_t>(part.last));
    list.push(Json().set("layers", std::move(layers)).set("micro_batch_s", part.micro_batch_s));
  }
  return Json().set("parts", std::move(list)).dump() + "\n";
}

TrainedPart part_of(const StageMeasured& measured) {
  const Json plan = Json::parse(measured.plan, "plan");
  const Json& stage = plan.at("stages").as_array().at(measured.rank);
  return read_part(stage.at("layers"), measured.micro_batch_s);
}

}  // namespace

fs::path ProfileStore::profile_folder(const PipelineSpec& spec) const {
  return spec.checkpoint.empty() ? folder_ : fs::path(spec.checkpoint) / "profiles";
}

std::vector<fs::path> ProfileStore::profile_files(const PipelineSpec& spec,
                                                  std::span<const PlanPlace> places) const {
  const fs::path folder = profile_folder(spec);
  make_room(folder, places.size());
  std::vector<fs::path> files;
  for (const PlanPlace& place : places) files.push_back(folder / profile_name(spec, place));
  return files;
}

fs::path ProfileStore::trained_file(const PipelineSpec& spec, const PlanPlace& place) const {
  return folder_ / (key_of(spec, place) + ".parts.json");
}

StagePlace ProfileStore::look_up(const PipelineSpec& spec, const PlanPlace& place) const {
  return {place, read_cached(profile_folder(spec) / profile_name(spec, place), read_profile),
          read_cached(trained_file(spec, place), read_parts)};
}

void ProfileStore::keep(const StageMeasured& measured) const {
  const PipelineSpec& spec = *measured.submission->spec.pipeline;
  const fs::path file = trained_file(spec, measured.place);
  try {
    const TrainedPart part = part_of(measured);
    std::vector<TrainedPart> parts = read_cached(file, read_parts);
    std::erase_if(parts, [&](const TrainedPart& one) {
      return one.first == part.first && one.last == part.last;
    });
    if (parts.size() == kMaxTrainedParts) parts.erase(parts.begin());
    parts.push_back(part);
    if (!fs::exists(file)) make_room(folder_, 1);
    write_text_file(file, write_parts(parts));
  } catch (const std::exception& error) {
    log_warn("server", "what worker '{}' measured is not kept: {}", measured.place.spec.name,
             error.what());
  }
}

}  // namespace harmonics::inline in_server
