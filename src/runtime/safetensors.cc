#include <harmonics/runtime/safetensors.h>

#include <array>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/custody/digest.h>

namespace harmonics::inline in_runtime {
namespace {

constexpr std::string_view kChecksumKey = "sha256";
constexpr std::array<std::string_view, kDTypeCount> kDTypeNames = {
    "F32", "F64", "BF16", "F16", "I64", "I32", "I8", "U8", "BOOL"};

Json header_json(const Safetensors& content, bool checksum) {
  Json metadata = Json::object();
  for (const auto& [key, value] : content.metadata) metadata.set(key, value);
  if (checksum) metadata.set(kChecksumKey, std::string(64, '0'));
  Json::Object members;
  members.emplace_back("__metadata__", std::move(metadata));
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    Json shape = Json::array();
    for (const std::int64_t axis : tensor.shape()) shape.push(axis);
    Json entry;
    entry.set("dtype", kDTypeNames.at(static_cast<int>(tensor.dtype())));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", Json(Json::Array{Json(offset), Json(offset + tensor.byte_size())}));
    members.emplace_back(name, std::move(entry));
    offset += tensor.byte_size();
  }
  return members;
}

/// A file that is being read and checked.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    // Asked before it is opened: a pipe would wait for whoever writes into it.
    const bool there = std::filesystem::exists(path, error);
    if (there && !std::filesystem::is_regular_file(path)) broken("it is not a regular file");
    file_.open(path, std::ios::binary);
    if (!file_) fail_errno(errno, format("cannot read '{}'", path.string()));
    size_ = std::filesystem::file_size(path, error);
    if (error) broken("it is not a regular file");
  }

  Safetensors read(bool with_tensors = true) {
    read_header();
    Safetensors content;
    const Json header = Json::parse(header_, path_.string());
    if (!header.is_object()) broken("its header is not a JSON object");
    if (const Json* metadata = header.find("__metadata__")) {
      for (const auto& [key, value] : metadata->as_object()) {
        content.metadata[key] = value.as_string();
      }
    }
    if (!with_tensors) return content;
    read_data(header, content);
    check(content);
    return content;
  }

 private:
  [[noreturn]] void broken(const std::string& what) const {
    fail(ErrorCode::kDataLoss, "'{}' is not a usable safetensors file: {}", path_.string(), what);
  }

  void take(void* to, std::size_t size) {
    file_.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
    if (!file_) broken("it ends too early");
  }

  void read_header() {
    if (size_ < 8) broken(format("it has only {} bytes", size_));
    std::uint64_t length = 0;
    take(&length, sizeof length);
    if (length > kMaxSafetensorsHeader || length > size_ - 8) {
      broken(
          format("its header claims {} bytes, the file has {}; it is truncated or of another kind",
                 length, size_));
    }
    header_.resize(length);
    take(header_.data(), length);
    digest_.update(std::as_bytes(std::span(&length, 1)));
  }

  void read_data(const Json& header, Safetensors& content) {
    data_size_ = size_ - 8 - header_.size();
    std::uint64_t expected = 0;
    for (const auto& [name, entry] : header.as_object()) {
      if (name == "__metadata__") continue;
      expected += read_tensor(name, entry, content);
    }
    if (expected != data_size_) {
      broken(format("its tensors take {} bytes, {} bytes of data are there", expected, data_size_));
    }
  }

  std::uint64_t read_tensor(const std::string& name, const Json& entry, Safetensors& content) {
    TensorSpec spec;
    for (const Json& axis : entry.at("shape").as_array()) spec.shape.push_back(axis.as_integer());
    const std::string& dtype = entry.at("dtype").as_string();
    const auto known = std::find(kDTypeNames.begin(), kDTypeNames.end(), dtype);
    if (known == kDTypeNames.end())
      broken(format("tensor '{}' has the unknown dtype {}", name, dtype));
    spec.dtype = static_cast<DType>(known - kDTypeNames.begin());
    const auto& offsets = entry.at("data_offsets").as_array();
    if (offsets.size() != 2) broken(format("tensor '{}' has no begin and end", name));
    const std::int64_t begin = offsets[0].as_integer(), end = offsets[1].as_integer();
    const auto bytes = byte_count(spec);
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_size_ ||
        end - begin != bytes) {
      broken(format("tensor '{}' of {} claims bytes {} to {} of {}", name, spec_text(spec), begin,
                    end, data_size_));
    }
    Tensor tensor = Tensor::empty(spec.shape, spec.dtype);
    file_.seekg(static_cast<std::streamoff>(8 + header_.size() + begin));
    take(tensor.mutable_bytes().data(), tensor.byte_size());
    in_file_order_.emplace(begin, tensor);
    content.tensors.emplace(name, std::move(tensor));
    return static_cast<std::uint64_t>(bytes);
  }

  // Tensors that tile the data without gaps or overlaps were read whole, so hashing them is hashing
  // the file.
  void check(const Safetensors& content) {
    std::int64_t at = 0;
    for (const auto& [begin, tensor] : in_file_order_) {
      if (begin != at && tensor.byte_size() != 0) broken("its tensors overlap or leave gaps");
      at = std::max(at, begin + static_cast<std::int64_t>(tensor.byte_size()));
    }
    const auto claimed = content.metadata.find(std::string(kChecksumKey));
    if (claimed == content.metadata.end()) return;
    const std::size_t digits = header_.find(claimed->second);
    if (claimed->second.size() != 64 || digits == std::string::npos)
      broken("its checksum is damaged");
    std::string zeroed = header_;
    zeroed.replace(digits, 64, 64, '0');
    digest_.update(bytes_of(zeroed));
    for (const auto& [begin, tensor] : in_file_order_) digest_.update(tensor.bytes());
    if (digest_text(digest_.finish()) != claimed->second) {
      broken("its checksum does not match: the file was damaged or changed");
    }
  }

  const std::filesystem::path& path_;
  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::uint64_t data_size_ = 0;
  std::string header_;
  std::multimap<std::int64_t, Tensor> in_file_order_;
  Sha256 digest_;
};

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, const Safetensors& content,
                              bool checksum) {
  std::string header = header_json(content, checksum).dump();
  header.append((8 - header.size() % 8) % 8, ' ');  // readers expect aligned data
  const std::uint64_t length = header.size();
  const auto length_bytes = std::as_bytes(std::span(&length, 1));
  std::string digits;
  if (checksum) {
    Sha256 digest;
    digest.update(length_bytes).update(bytes_of(header));
    for (const auto& [name, tensor] : content.tensors) digest.update(tensor.bytes());
    const std::string key = format("\"{}\":\"", kChecksumKey);
    digits = digest_text(digest.finish());
    header.replace(header.find(key) + key.size(), 64, digits);
  }
  AtomicFile file(path);
  file.write(length_bytes);
  file.write(bytes_of(header));
  for (const auto& [name, tensor] : content.tensors) file.write(tensor.bytes());
  file.commit();
  return digits;
}

namespace {

Safetensors read_file(const std::filesystem::path& path, bool with_tensors) {
  try {
    return Reader(path).read(with_tensors);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    fail(ErrorCode::kDataLoss, "'{}' is not a usable safetensors file: {}", path.string(),
         error.what());
  }
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path) { return read_file(path, true); }

std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path) {
  return read_file(path, false).metadata;
}

}  // namespace harmonics::inline in_runtime
