// An imported model as files.
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/models/import_model.h>
#include <harmonics/models/safetensors_header.h>

#include "model_record.h"
#include "weight_index.h"

namespace harmonics::inline in_models {
namespace {

using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

std::filesystem::path beside(const std::filesystem::path& harp, const std::string& ending) {
  return harp.parent_path() / (harp.stem().string() + ending);
}

// Tensor by tensor: never more than one of them in memory.
std::uint64_t copy_weights(const ImportedModel& model, AtomicFile& file, const Progress& progress) {
  std::vector<SafetensorsEntry> entries;
  std::uint64_t all = 0, done = 0;
  for (const auto& [name, entry] : model.weights.entries()) {
    entries.push_back({name, entry.spec()});
    all += static_cast<std::uint64_t>(byte_count(entry.spec()));
  }
  const std::string header = safetensors_header_text(
      entries, Json().set("format", "pt").set(kModelRecord, record_json(model).dump()));
  if (header.size() > kMaxSafetensorsHeader) {
    fail(ErrorCode::kResourceExhausted, "the header of the weights takes {} bytes, at most {}",
         header.size(), kMaxSafetensorsHeader);
  }
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(bytes_of(header));
  for (const SafetensorsEntry& entry : entries) {
    const Tensor tensor = model.weights.read(entry.name);
    file.write(tensor.bytes());
    model.weights.forget(entry.name);
    done += tensor.byte_size();
    if (progress) progress(done, all);
  }
  return all;
}

// Files below the map's folder are named from there, so that the folder can be moved as a whole.
std::string linked_name(const std::filesystem::path& file, const std::filesystem::path& map) {
  const auto folder =
      std::filesystem::weakly_canonical(std::filesystem::absolute(map).parent_path());
  const auto target = std::filesystem::weakly_canonical(file);
  const std::string below = target.lexically_relative(folder).string();
  return below.empty() || below.starts_with("..") ? target.string() : below;
}

std::uint64_t link_weights(const ImportedModel& model, AtomicFile& file,
                           const std::filesystem::path& path) {
  for (const auto& [name, entry] : model.weights.entries()) {
    if (entry.file != kHeldInMemory) continue;
    fail(
        ErrorCode::kFailedPrecondition,
        "tensor '{}' was worked out by the import and lies in no file to link to: copy the weights",
        name);
  }
  WeightMap map;
  for (const MappedFilePtr& each : model.weights.files()) {
    map.files.push_back(linked_name(each->path(), path));
  }
  map.entries = model.weights.entries();
  map.model = record_json(model);
  const std::string text = weight_map_text(map);
  file.write(bytes_of(text));
  return text.size();
}

// As large as anyone who reads it takes (docs/Datasets.md).
constexpr std::size_t kMaxDataFile = std::size_t{64} << 20;

// What the weights section says of one of the source's files that make inputs.
std::string data_setting(const char* key, const std::filesystem::path& file, bool copies,
                         WrittenModel& written) {
  if (file.empty()) return {};
  std::string name = linked_name(file, written.harp);
  if (copies) {
    const auto copy = beside(written.harp, format(".{}.json", key));
    if (!std::filesystem::exists(copy) || !std::filesystem::equivalent(file, copy)) {
      write_text_file(copy, read_text_file(file, kMaxDataFile));
    }
    written.beside.push_back(copy);
    name = copy.filename().string();
  }
  return format("  {} = {};\n", key, json_quote(name));
}

}  // namespace

WrittenModel write_model(const ImportedModel& model, const std::filesystem::path& harp,
                         WeightsMode mode, const Progress& on_progress) {
  if (harp.extension() != ".harp") {
    fail(ErrorCode::kInvalidArgument, "'{}' does not end in .harp", harp.string());
  }
  const bool copies = mode == WeightsMode::kCopy;
  WrittenModel written{harp, beside(harp, copies ? ".safetensors" : ".weights.json"), 0, {}};
  for (const MappedFilePtr& file : model.weights.files()) {
    std::error_code none;
    if (std::filesystem::equivalent(file->path(), written.weights, none)) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' is a file of the source: write the model to another folder or name",
           written.weights.string());
    }
  }
  AtomicFile text(harp);
  AtomicFile weights(written.weights);
  written.weight_bytes = copies ? copy_weights(model, weights, on_progress)
                                : link_weights(model, weights, written.weights);
  weights.commit();
  const std::string made = data_setting("tokenizer", model.tokenizer, copies, written) +
                           data_setting("preprocessor", model.preprocessor, copies, written);
  text.write(bytes_of(format("{}\nweights {{\n  file = {};\n{}}}\n", model.harp,
                             json_quote(written.weights.filename().string()), made)));
  text.commit();
  return written;
}

}  // namespace harmonics::inline in_models
