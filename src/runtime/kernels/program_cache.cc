#include "kernels/program_cache.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/base/user_folders.h>
#include <harmonics/custody/digest.h>

namespace harmonics::inline in_runtime {
namespace {

constexpr std::string_view kMagic = "harmonics program 1\n";
constexpr std::size_t kDigestDigits = 64;

// Two threads of one process would share a temporary name.
std::mutex& writers() {
  static std::mutex one_at_a_time;
  return one_at_a_time;
}

void remove_oldest(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  for (const std::filesystem::path& path : list_folder(folder)) {
    if (path.extension() != ".bin") continue;
    files.emplace_back(std::filesystem::last_write_time(path, ignored), path);
  }
  if (files.size() <= kMaxCachedPrograms) return;
  std::ranges::sort(files);
  for (std::size_t i = 0; i + kMaxCachedPrograms < files.size(); ++i) {
    std::filesystem::remove(files[i].second, ignored);
  }
}

}  // namespace

std::filesystem::path ProgramCache::standard_folder(std::string_view kind) {
  const auto folder = user_cache_folder();
  return folder ? *folder / kind : std::filesystem::path();
}

std::string ProgramCache::key(std::span<const std::string> parts) {
  ByteWriter writer;
  for (const std::string& part : parts) writer.text(part);
  return digest_text(sha256(writer.bytes()));
}

std::optional<std::string> ProgramCache::load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::filesystem::path path = folder_ / (key + ".bin");
  std::error_code missing;
  if (!std::filesystem::is_regular_file(path, missing)) return std::nullopt;
  try {
    std::string text = read_text_file(path, kMaxProgramBytes + kMagic.size() + kDigestDigits);
    const std::size_t head = kMagic.size() + kDigestDigits;
    if (text.size() < head || !text.starts_with(kMagic)) return std::nullopt;
    std::string binary = text.substr(head);
    if (text.substr(kMagic.size(), kDigestDigits) != digest_text(sha256(bytes_of(binary)))) {
      log_warn("runtime", "'{}' is damaged: the program is built again", path.string());
      return std::nullopt;
    }
    return binary;
  } catch (const Error& error) {
    log_warn("runtime", "the program is built again: {}", std::string_view(error.what()));
    return std::nullopt;
  }
}

void ProgramCache::store(const std::string& key, std::string_view binary) const {
  if (folder_.empty() || binary.size() > kMaxProgramBytes) return;
  const std::lock_guard lock(writers());
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);
    write_text_file(
        folder_ / (key + ".bin"),
        std::string(kMagic) + digest_text(sha256(bytes_of(binary))) + std::string(binary));
    remove_oldest(folder_);
  } catch (const Error& error) {
    log_info("runtime", "the program was not kept: {}", std::string_view(error.what()));
  }
}

void ProgramCache::remove(const std::string& key) const {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove(folder_ / (key + ".bin"), ignored);
}

}  // namespace harmonics::inline in_runtime
