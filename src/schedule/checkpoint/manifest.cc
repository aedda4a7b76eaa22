#include <harmonics/schedule/manifest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::string_view kMark = "{\"harmonics_manifest\":";
constexpr int kManifestVersion = 1;
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kDigestDigits = 64;

Json step_json(const SavedStep& saved) {
  Json stages = Json::array();
  for (const StageFile& stage : saved.stages) {
    Json one;
    one.set("stage", stage.stage).set("file", stage.file).set("sha256", stage.sha256);
    stages.push(std::move(one));
  }
  Json json;
  json.set("step", saved.step).set("stages", std::move(stages));
  return json;
}

void check_stage(const StageFile& stage) {
  const std::string& file = stage.file;
  if (file.empty() || file.size() > kMaxNameBytes || file == "." || file == ".." ||
      file.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    fail(ErrorCode::kDataLoss, "'{}' is no name of a file beside the manifest", file);
  }
  const bool hexadecimal = std::ranges::all_of(
      stage.sha256, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hexadecimal || stage.sha256.size() != kDigestDigits) {
    fail(ErrorCode::kDataLoss, "the digest of '{}' is not {} hexadecimal digits", file,
         kDigestDigits);
  }
}

SavedStep step_from(const Json& json) {
  SavedStep saved;
  saved.step = json.at("step").as_integer();
  const Json::Array& stages = json.at("stages").as_array();
  if (saved.step < 0 || stages.size() > kMaxManifestStages || (saved.step > 0 && stages.empty())) {
    fail(ErrorCode::kDataLoss, "step {} with {} stages (at most {})", saved.step, stages.size(),
         kMaxManifestStages);
  }
  for (const Json& one : stages) {
    const StageFile& stage = saved.stages.emplace_back(
        one.at("stage").as_string(), one.at("file").as_string(), one.at("sha256").as_string());
    check_stage(stage);
  }
  return saved;
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  Json json;
  json.set("harmonics_manifest", kManifestVersion);
  json.set("latest", step_json(manifest.latest));
  if (manifest.previous) json.set("previous", step_json(*manifest.previous));
  return json.dump() + "\n";
}

Manifest decode_manifest(std::string_view text, std::string_view name) {
  try {
    const Json json = Json::parse(text, name);
    if (json.at("harmonics_manifest").as_integer() != kManifestVersion) {
      fail(ErrorCode::kUnimplemented, "version {}, this program reads version {}",
           json.at("harmonics_manifest").as_integer(), kManifestVersion);
    }
    Manifest manifest;
    manifest.latest = step_from(json.at("latest"));
    if (const Json* previous = json.find("previous")) manifest.previous = step_from(*previous);
    return manifest;
  } catch (const Error& error) {
    fail(error.code() == ErrorCode::kInvalidArgument ? ErrorCode::kDataLoss : error.code(),
         "'{}' is not a usable manifest of a checkpoint: {}", name, error.what());
  }
}

bool is_manifest(const std::filesystem::path& path) {
  // A pipe would wait for whoever writes into it.
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return false;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_errno(errno, format("cannot read '{}'", path.string()));
  std::array<char, kMark.size()> start{};
  file.read(start.data(), start.size());
  return std::string_view(start.data(), static_cast<std::size_t>(file.gcount())) == kMark;
}

Manifest read_manifest(const std::filesystem::path& path) {
  return decode_manifest(read_text_file(path, kMaxManifestBytes), path.string());
}

void write_manifest(const std::filesystem::path& path, const Manifest& manifest) {
  write_text_file(path, encode_manifest(manifest));
}

}  // namespace harmonics::inline in_schedule
