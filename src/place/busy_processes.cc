#include <harmonics/place/busy_processes.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_place {
namespace {

constexpr std::size_t kNamedProcesses = 3;

// Of /proc/N/stat, counted from the state, which stands behind the name: man 5 proc.
constexpr std::size_t kUserTicks = 11;
constexpr std::size_t kSystemTicks = 12;
constexpr std::size_t kBegan = 19;

// The name stands in brackets and may hold brackets and spaces itself.
std::optional<ProcessTime> read_process(const std::filesystem::path& folder, std::int64_t id) {
  std::ifstream file(folder / "stat");
  std::string line;
  std::getline(file, line);
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  std::istringstream rest(line.substr(close + 1));
  std::vector<std::string> fields;
  for (std::string word; fields.size() <= kBegan && rest >> word;) fields.push_back(word);
  if (fields.size() <= kBegan) return std::nullopt;
  const auto user = number_from<std::int64_t>(fields[kUserTicks]);
  const auto system = number_from<std::int64_t>(fields[kSystemTicks]);
  const auto began = number_from<std::int64_t>(fields[kBegan]);
  if (!user || !system || !began) return std::nullopt;
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ProcessTime{id, *began, line.substr(open + 1, close - open - 1),
                     static_cast<double>(*user + *system) / ticks_per_s};
}

}  // namespace

std::vector<ProcessTime> process_times(const std::filesystem::path& root) {
  std::vector<ProcessTime> all;
  std::error_code none;
  for (std::filesystem::directory_iterator entry(root / "proc", none), end;
       !none && entry != end && all.size() < kMaxSeenProcesses; entry.increment(none)) {
    const auto id = number_from<std::int64_t>(entry->path().filename().string());
    if (!id || *id == ::getpid()) continue;
    if (auto process = read_process(entry->path(), *id)) all.push_back(std::move(*process));
  }
  return all;
}

std::vector<BusyProcess> busy_processes(const std::vector<ProcessTime>& before,
                                        const std::vector<ProcessTime>& after, double seconds) {
  std::vector<BusyProcess> busy;
  if (!(seconds > 0)) return busy;
  std::map<std::pair<std::int64_t, std::int64_t>, double> known;
  for (const ProcessTime& one : before) known[{one.id, one.began}] = one.cpu_s;
  for (const ProcessTime& one : after) {
    const auto found = known.find({one.id, one.began});
    const double computed = one.cpu_s - (found == known.end() ? 0 : found->second);
    if (computed > 0) busy.push_back({one.id, one.name, computed / seconds});
  }
  std::ranges::sort(busy, [](const BusyProcess& a, const BusyProcess& b) {
    return std::pair(-a.cores, a.id) < std::pair(-b.cores, b.id);
  });
  return busy;
}

std::string busy_names(const std::vector<BusyProcess>& busy) {
  std::vector<std::string> names;
  for (const BusyProcess& one : busy) {
    if (names.size() == kNamedProcesses || one.cores < kLeastNamedCores) break;
    names.push_back(format("{} (process {}) {:.1f}", one.name, one.id, one.cores));
  }
  return joined(names, ", ");
}

}  // namespace harmonics::inline in_place
