// Which kind of file or folder a path is, and how it is opened.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/models/gguf.h>
#include <harmonics/models/safetensors_header.h>
#include <harmonics/models/weight_source.h>

#include "weight_index.h"

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kModelIndex = "model.safetensors.index.json";
constexpr std::string_view kTorchFile = "pytorch_model.bin";
constexpr std::string_view kTorchIndex = "pytorch_model.bin.index.json";

[[noreturn]] void refuse_torch(const std::filesystem::path& path) {
  fail(
      ErrorCode::kUnimplemented,
      "'{}' is a pickle of PyTorch, which can run code when it is read, and is not opened here. "
      "Turn it into safetensors first:\n  python3 -c \"import torch; from safetensors.torch import "
      "save_file; save_file({{k: v.clone() for k, v in torch.load('{}', "
      "map_location='cpu').items()}}, '{}')\"",
      path.string(), path.string(), (path.parent_path() / kModelFile).string());
}

bool ends_with(const std::filesystem::path& path, std::string_view end) {
  return path.filename().string().ends_with(end);
}

struct OpenedSafetensors {
  MappedFilePtr file;
  SafetensorsHeader header;
};

OpenedSafetensors open_safetensors(const MappedFilePtr& file) {
  const ByteSpan bytes = file->bytes();
  const std::string origin = file->path().string();
  const ByteSpan prefix = bytes.first(std::min(bytes.size(), kSafetensorsPrefix));
  const std::uint64_t length = safetensors_header_size(prefix, bytes.size(), origin);
  const ByteSpan text = bytes.subspan(kSafetensorsPrefix, length);
  return {file, parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()},
                                         bytes.size() - kSafetensorsPrefix - length, origin)};
}

void add_entries(const OpenedSafetensors& opened, std::size_t file, WeightEntries& entries) {
  for (const SafetensorsEntry& each : opened.header.tensors) {
    WeightEntry entry;
    entry.file = file;
    entry.offset = opened.header.data_offset + each.begin;
    entry.stored = each.spec;
    entry.shape = each.spec.shape;
    entry.source_name = each.name;
    entries.emplace(each.name, std::move(entry));
  }
}

WeightSource one_file(const MappedFilePtr& file) {
  const OpenedSafetensors opened = open_safetensors(file);
  WeightEntries entries;
  add_entries(opened, 0, entries);
  return {{file}, std::move(entries), opened.header.metadata};
}

WeightSource indexed_files(const std::filesystem::path& path) {
  const auto index = parse_weight_index(read_text_file(path, kMaxWeightText), path.string());
  std::map<std::string, std::size_t> numbers;
  std::vector<MappedFilePtr> files;
  WeightEntries all;
  for (const auto& [name, file] : index) {
    if (numbers.contains(file)) continue;
    if (files.size() >= kMaxWeightFiles) {
      fail(ErrorCode::kResourceExhausted, "'{}' names more than {} files", path.string(),
           kMaxWeightFiles);
    }
    numbers.emplace(file, files.size());
    files.push_back(std::make_shared<MappedFile>(path.parent_path() / file));
    add_entries(open_safetensors(files.back()), files.size() - 1, all);
  }
  WeightEntries wanted;
  for (const auto& [name, file] : index) {
    const auto found = all.find(name);
    if (found == all.end() || found->second.file != numbers.at(file)) {
      fail(ErrorCode::kDataLoss, "'{}' says that tensor '{}' lies in '{}', which does not have it",
           path.string(), name, file);
    }
    wanted.emplace(name, found->second);
  }
  return {std::move(files), std::move(wanted)};
}

WeightSource mapped_names(const std::filesystem::path& path) {
  WeightMap map = parse_weight_map(read_text_file(path, kMaxWeightText), path.string());
  std::vector<MappedFilePtr> files;
  for (const std::string& file : map.files) {
    files.push_back(std::make_shared<MappedFile>(path.parent_path() / file));
  }
  std::map<std::string, std::string> metadata;
  if (!map.model.is_null()) metadata["harmonics_model"] = map.model.dump();
  return {std::move(files), std::move(map.entries), std::move(metadata)};
}

WeightSource open_folder(const std::filesystem::path& folder) {
  for (const std::string_view name : {kModelIndex, kModelFile}) {
    if (std::filesystem::exists(folder / name)) return WeightSource::open(folder / name);
  }
  for (const std::string_view name : {kTorchFile, kTorchIndex}) {
    if (std::filesystem::exists(folder / name)) refuse_torch(folder / kTorchFile);
  }
  fail(ErrorCode::kNotFound, "the folder '{}' has neither {} nor {}", folder.string(), kModelFile,
       kModelIndex);
}

}  // namespace

bool is_mapped_source(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return true;
  if (ends_with(path, ".index.json") || ends_with(path, ".weights.json")) return true;
  return std::filesystem::is_regular_file(path) && is_gguf(MappedFile(path));
}

WeightSource WeightSource::open(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return open_folder(path);
  if (ends_with(path, ".index.json")) return indexed_files(path);
  if (ends_with(path, ".weights.json")) return mapped_names(path);
  if (ends_with(path, ".bin") || ends_with(path, ".pt") || ends_with(path, ".pth")) {
    refuse_torch(path);
  }
  const auto file = std::make_shared<const MappedFile>(path);
  return is_gguf(*file) ? open_gguf(file).weights : one_file(file);
}

}  // namespace harmonics::inline in_models
