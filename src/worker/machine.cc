#include <harmonics/worker/machine.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/base/number_text.h>

#include "nvml.h"
#include "supervisor/run_record.h"

namespace harmonics::inline in_worker {
namespace {

constexpr std::size_t kMaxListBytes = 64 << 10;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text);
}

std::uint64_t cgroup_limit_bytes() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto text = read_small_file(path, 64);
    if (!text) continue;
    const std::string line = trimmed(text->substr(0, text->find('\n')));
    if (const auto limit = number_from<std::uint64_t>(line)) return *limit;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::uint32_t count_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    return static_cast<std::uint32_t>(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::uint64_t host_memory_mb() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  return std::min(pages * page, cgroup_limit_bytes()) >> 20;
}

std::vector<DeviceSpec> find_gpus() {
  try {
    if (const auto found = find_nvml_gpus()) return *found;
  } catch (const Error& error) {
    log_warn("worker", "{}; asking nvidia-smi instead", error.what());
  }
  FILE* pipe = ::popen(
      "nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader,nounits 2>/dev/null",
      "r");
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() < kMaxListBytes) {
    const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), pipe);
    if (got == 0) break;
    text.append(chunk.data(), got);
  }
  if (::pclose(pipe) != 0) return {};
  return parse_gpu_list(text);
}

std::vector<DeviceSpec> parse_gpu_list(std::string_view text) {
  std::vector<DeviceSpec> devices;
  for (const std::string& line : split(text, '\n')) {
    if (trimmed(line).empty()) continue;
    const std::vector<std::string> cells = split(line, ',');
    const auto memory =
        cells.size() == 3 ? number_from<std::uint64_t>(trimmed(cells[2])) : std::nullopt;
    if (!memory || !number_from<std::uint64_t>(trimmed(cells[0]))) {
      fail(ErrorCode::kDataLoss,
           "nvidia-smi printed '{}', which is no GPU: name the GPUs with --gpus, --models and "
           "--memories",
           line);
    }
    devices.push_back({trimmed(cells[0]), trimmed(cells[1]), *memory});
  }
  return devices;
}

std::vector<DeviceSpec> devices_from_lists(const std::string& ids, const std::string& models,
                                           const std::string& memories) {
  if (ids.empty() && models.empty() && memories.empty()) return {};
  const auto items = [](const std::string& list) {
    return list.empty() ? std::vector<std::string>() : split(list, ',');
  };
  const std::vector<std::string> id_list = items(ids);
  const std::vector<std::string> model_list = items(models);
  const std::vector<std::string> memory_list = items(memories);
  if (id_list.size() != model_list.size() || id_list.size() != memory_list.size()) {
    fail(
        ErrorCode::kInvalidArgument,
        "--gpus names {} device(s), --models {} and --memories {}: give each device an id, a model "
        "and a memory size in MB",
        id_list.size(), model_list.size(), memory_list.size());
  }
  std::vector<DeviceSpec> devices;
  for (std::size_t i = 0; i < id_list.size(); ++i) {
    const auto memory = number_from<std::uint64_t>(trimmed(memory_list[i]));
    if (!memory) {
      fail(ErrorCode::kInvalidArgument, "--memories: '{}' is not a number of MB", memory_list[i]);
    }
    const std::string id = trimmed(id_list[i]);
    if (id.empty()) fail(ErrorCode::kInvalidArgument, "--gpus: an id is empty");
    for (const DeviceSpec& other : devices) {
      if (other.name == id) fail(ErrorCode::kInvalidArgument, "--gpus: '{}' is there twice", id);
    }
    devices.push_back({id, trimmed(model_list[i]), *memory});
  }
  return devices;
}

}  // namespace harmonics::inline in_worker
