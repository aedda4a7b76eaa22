// Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
// Gradient Descent", USENIX ATC 2023. A device is fragmented for a task as far as the task cannot
// use what is free of it; a worker as far as the tasks that come, weighed by how often they came,
// cannot.
#include "fgd_expectation.h"

#include <algorithm>

namespace harmonics::inline in_cluster {
namespace {

/// Numbers of cores of one kind that are told apart; others count as the next larger one.
constexpr std::size_t kMaxCores = 64;
/// Before so many tasks have come, each one changes what is expected; then each quarter more does.
constexpr std::uint64_t kFirstLook = 64;
/// How much it counts how often a task fits, beside whether it does: the paper asks the latter
/// alone, and so takes a worker for whole whose cores are enough for one task more.
constexpr float kOften = 0.1F;

bool suits_kind(const DeviceSpec& device, const FgdKind& kind) {
  if (device.memory_mb < kind.memory_mb) return false;
  return kind.models.empty() || std::ranges::any_of(kind.models, [&](const std::string& wanted) {
           return is_model(device.model, wanted);
         });
}

}  // namespace

FgdKind fgd_kind(const Needs& needs) {
  return {needs.gpus, needs.share, needs.gpu_memory_mb,
          needs.terms ? needs.terms->gpu_models : std::vector<std::string>{}};
}

FgdRooms fgd_rooms(const Worker& worker) {
  FgdRooms rooms;
  rooms.devices = worker.spec.devices.size();
  rooms.cpus = worker.free_cpus;
  for (std::size_t i = 0; i < rooms.devices; ++i) {
    rooms.of[i] = worker.room(DeviceId{static_cast<std::uint16_t>(i)});
  }
  return rooms;
}

std::size_t FgdExpectation::kind(const FgdKind& key) {
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  if (kinds_.size() == kMaxFgdKinds) return kMaxFgdKinds;
  kinds_.push_back({key, {}, 0, {}, {}});
  return numbers_[key] = kinds_.size() - 1;
}

void FgdExpectation::count(std::size_t kind, std::uint32_t cpus) {
  if (kind == kMaxFgdKinds) return;
  auto& cores = kinds_[kind].cores;
  if (cores.size() >= kMaxCores) {
    const auto next = cores.lower_bound(cpus);
    cpus = next == cores.end() ? cores.rbegin()->first : next->first;
  }
  ++cores[cpus];
  ++counted_;
}

bool FgdExpectation::look() {
  if (counted_ < next_look_) return false;
  next_look_ = counted_ < kFirstLook ? counted_ + 1 : counted_ + counted_ / 4;
  const auto all = static_cast<float>(counted_);
  for (Kind& kind : kinds_) {
    kind.per_core.clear();
    kind.weights.clear();
    kind.weight = 0;
    for (const auto& [cores, times] : kind.cores) {
      kind.per_core.push_back(cores == 0 ? 0 : 1 / static_cast<float>(cores));
      kind.weights.push_back(static_cast<float>(times) / all);
      kind.weight += kind.weights.back();
    }
  }
  return true;
}

void FgdExpectation::add_kinds(FgdShape& shape) const {
  while (shape.suits.size() < kinds_.size()) {
    DeviceSet suits;
    const FgdKind& key = kinds_[shape.suits.size()].key;
    for (std::size_t i = 0; i < shape.devices.size(); ++i) {
      if (suits_kind(shape.devices[i], key)) suits.add({static_cast<std::uint16_t>(i)});
    }
    shape.suits.push_back(suits);
  }
}

float FgdExpectation::fragmentation(const FgdRooms& rooms, const FgdShape& shape) const {
  float total = 0;
  for (std::size_t i = 0; i < rooms.devices; ++i) total += static_cast<float>(rooms.of[i]);
  float sum = 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    sum += useless_for(kinds_[i], rooms, shape.suits[i], total);
  }
  return sum;
}

float FgdExpectation::useless_for(const Kind& kind, const FgdRooms& rooms, DeviceSet suits,
                                  float total) {
  const FgdKind& key = kind.key;
  std::uint32_t slots = 0;
  float rest = 0;  // On devices of which it can have nothing.
  for (std::size_t i = 0; i < rooms.devices && key.gpus > 0; ++i) {
    const bool suited = suits.has(DeviceId{static_cast<std::uint16_t>(i)});
    const std::uint32_t times = suited ? rooms.of[i] / key.share : 0;
    slots += times;
    if (times == 0) rest += static_cast<float>(rooms.of[i]);
  }
  if (key.gpus > 1) slots /= key.gpus;
  if (slots == 0) return kind.weight * total;
  const auto cpus = static_cast<float>(rooms.cpus);
  const auto most = static_cast<std::int32_t>(slots);
  float fits = 0;
  float often = 0;
  for (std::size_t c = 0; c < kind.per_core.size(); ++c) {
    // A hair more, so that what divides evenly is not rounded down.
    const float by_cores = kind.per_core[c] == 0 ? 1e6F : cpus * kind.per_core[c] * 1.000001F;
    const std::int32_t times = std::min(most, static_cast<std::int32_t>(std::min(by_cores, 1e6F)));
    fits += times > 0 ? kind.weights[c] : 0;
    often += kind.weights[c] * static_cast<float>(times);
  }
  const auto unit = static_cast<float>(key.gpus * key.share);
  return kOften * (kind.weight * total - unit * often) +
         (1 - kOften) * (fits * rest + (kind.weight - fits) * total);
}

}  // namespace harmonics::inline in_cluster
