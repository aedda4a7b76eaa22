#include <harmonics/models/safetensors_header.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kSafetensorsDTypes = {
    "F32", "F64", "BF16", "F16", "I64", "I32", "I8", "U8", "BOOL"};
constexpr std::string_view kMetadataKey = "__metadata__";

[[noreturn]] void unusable(std::string_view origin, const std::string& what) {
  fail(ErrorCode::kDataLoss, "'{}' is not a usable safetensors file: {}", origin, what);
}

SafetensorsEntry entry_of(const std::string& name, const Json& json, std::uint64_t data_size,
                          std::string_view origin) {
  SafetensorsEntry entry{name, {}, 0, 0};
  for (const Json& axis : json.at("shape").as_array()) {
    entry.spec.shape.push_back(axis.as_integer());
  }
  const std::string& dtype = json.at("dtype").as_string();
  const auto known = std::ranges::find(kSafetensorsDTypes, dtype);
  if (known == kSafetensorsDTypes.end()) {
    unusable(origin, format("tensor '{}' has the unknown dtype {}", name, dtype));
  }
  entry.spec.dtype = static_cast<DType>(known - kSafetensorsDTypes.begin());
  const auto& offsets = json.at("data_offsets").as_array();
  if (offsets.size() != 2) unusable(origin, format("tensor '{}' has no begin and end", name));
  const std::int64_t begin = offsets[0].as_integer(), end = offsets[1].as_integer();
  if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_size ||
      end - begin != byte_count(entry.spec)) {
    unusable(origin, format("tensor '{}' of {} claims bytes {} to {} of {}", name,
                            spec_text(entry.spec), begin, end, data_size));
  }
  entry.begin = static_cast<std::uint64_t>(begin);
  entry.end = static_cast<std::uint64_t>(end);
  return entry;
}

void check_cover(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_size,
                 std::string_view origin) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::uint64_t sum = 0;
  for (const SafetensorsEntry& entry : tensors) {
    ranges.emplace_back(entry.begin, entry.end);
    sum += entry.end - entry.begin;
  }
  if (sum != data_size) {
    unusable(origin,
             format("its tensors take {} bytes, {} bytes of data are there", sum, data_size));
  }
  std::ranges::sort(ranges);
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at && end != begin) unusable(origin, "its tensors overlap or leave gaps");
    at = std::max(at, end);
  }
}

// What JSON finds wrong with a header is damage here, not a wrong argument.
template <typename Read>
auto as_data_loss(std::string_view origin, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    unusable(origin, error.what());
  }
}

Json header_object(std::string_view text, std::string_view origin) {
  Json header = Json::parse(text, origin);
  if (!header.is_object()) unusable(origin, "its header is not a JSON object");
  return header;
}

std::map<std::string, std::string> metadata_of(const Json& header) {
  std::map<std::string, std::string> metadata;
  if (const Json* json = header.find(kMetadataKey)) {
    for (const auto& [key, value] : json->as_object()) metadata[key] = value.as_string();
  }
  return metadata;
}

}  // namespace

std::uint64_t safetensors_header_size(ByteSpan prefix, std::uint64_t file_size,
                                      std::string_view origin) {
  if (file_size < kSafetensorsPrefix || prefix.size() < kSafetensorsPrefix) {
    unusable(origin, format("it has only {} bytes", file_size));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof length);
  if (length > kMaxSafetensorsHeader || length > file_size - kSafetensorsPrefix) {
    unusable(
        origin,
        format("its header claims {} bytes, the file has {}; it is truncated or of another kind",
               length, file_size));
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_size,
                                           std::string_view origin) {
  return as_data_loss(origin, [&] {
    const Json json = header_object(text, origin);
    SafetensorsHeader header;
    header.metadata = metadata_of(json);
    header.data_offset = kSafetensorsPrefix + text.size();
    for (const auto& [name, entry] : json.as_object()) {
      if (name == kMetadataKey) continue;
      header.tensors.push_back(entry_of(name, entry, data_size, origin));
    }
    check_cover(header.tensors, data_size, origin);
    return header;
  });
}

std::map<std::string, std::string> parse_safetensors_metadata(std::string_view text,
                                                              std::string_view origin) {
  return as_data_loss(origin, [&] { return metadata_of(header_object(text, origin)); });
}

std::string safetensors_header_text(const std::vector<SafetensorsEntry>& tensors, Json metadata) {
  Json::Object members;
  members.emplace_back(kMetadataKey, std::move(metadata));
  std::uint64_t offset = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    Json shape = Json::array();
    for (const std::int64_t axis : tensor.spec.shape) shape.push(axis);
    const auto bytes = static_cast<std::uint64_t>(byte_count(tensor.spec));
    Json entry;
    entry.set("dtype", kSafetensorsDTypes.at(static_cast<std::size_t>(tensor.spec.dtype)));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", Json(Json::Array{Json(offset), Json(offset + bytes)}));
    members.emplace_back(tensor.name, std::move(entry));
    offset += bytes;
  }
  std::string text = Json(std::move(members)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // readers expect aligned data
  return text;
}

}  // namespace harmonics::inline in_models
