#include <harmonics/runtime/safetensors.h>

#include <array>
#include <fstream>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/custody/digest.h>
#include <harmonics/models/safetensors_header.h>

namespace harmonics::inline in_runtime {
namespace {

constexpr std::string_view kChecksumKey = "sha256";

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
    read_header();
  }

  Safetensors read() {
    const SafetensorsHeader header =
        parse_safetensors_header(header_, size_ - 8 - header_.size(), path_.string());
    Safetensors content;
    content.metadata = header.metadata;
    for (const SafetensorsEntry& entry : header.tensors) {
      Tensor tensor = Tensor::empty(entry.spec.shape, entry.spec.dtype);
      file_.seekg(static_cast<std::streamoff>(header.data_offset + entry.begin));
      take(tensor.mutable_bytes().data(), tensor.byte_size());
      in_file_order_.emplace(entry.begin, tensor);
      content.tensors.emplace(entry.name, std::move(tensor));
    }
    check(content);
    return content;
  }

  std::map<std::string, std::string> metadata() {
    return parse_safetensors_metadata(header_, path_.string());
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
    std::array<std::byte, kSafetensorsPrefix> prefix{};
    if (size_ >= prefix.size()) take(prefix.data(), prefix.size());
    header_.resize(safetensors_header_size(prefix, size_, path_.string()));
    take(header_.data(), header_.size());
    digest_.update(prefix);
  }

  // The tensors cover the data, so hashing them in their order is hashing the file.
  void check(const Safetensors& content) {
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
  std::string header_;
  std::multimap<std::uint64_t, Tensor> in_file_order_;
  Sha256 digest_;
};

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, const Safetensors& content,
                              bool checksum) {
  Json metadata = Json::object();
  for (const auto& [key, value] : content.metadata) metadata.set(key, value);
  if (checksum) metadata.set(kChecksumKey, std::string(64, '0'));
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : content.tensors) entries.push_back({name, tensor.spec()});
  std::string header = safetensors_header_text(entries, std::move(metadata));
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

Safetensors read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path) {
  return Reader(path).metadata();
}

}  // namespace harmonics::inline in_runtime
