// Fragmentation gradient descent: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent", USENIX ATC 2023. A device is fragmented for a
// task as far as the task cannot use what is free of it; a worker as far as the tasks that come,
// weighed by how often they came, cannot. A task goes where it adds the least to that.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <harmonics/base/error.h>
#include <harmonics/cluster/policy.h>

namespace harmonics::inline in_cluster {
namespace {

/// Kinds of tasks that are told apart; what comes beyond that does not count.
constexpr std::size_t kMaxKinds = 96;
/// Numbers of cores of one kind that are told apart; others count as the next larger one.
constexpr std::size_t kMaxCores = 64;
/// Tasks that found no place and are known to have been counted.
constexpr std::size_t kMaxWaiting = 4096;
/// Before so many tasks have come, each one changes what is expected; then each quarter more does.
constexpr std::uint64_t kFirstLook = 64;
/// How much it counts how often a task fits, beside whether it does: the paper asks the latter
/// alone, and so takes a worker for whole whose cores are enough for one task more.
constexpr float kOften = 0.1F;

/// What a kind of tasks needs of devices.
struct KindKey {
  std::uint32_t gpus = 0;
  std::uint32_t share = kWholeDevice;
  std::uint64_t memory_mb = 0;
  std::vector<std::string> models{};
  auto operator<=>(const KindKey&) const = default;
};

KindKey kind_of(const Needs& needs) {
  return {needs.gpus, needs.share, needs.gpu_memory_mb,
          needs.terms ? needs.terms->gpu_models : std::vector<std::string>{}};
}

/// The tasks of one kind that have come, by their cores.
struct Kind {
  KindKey key{};
  std::map<std::uint32_t, std::uint64_t> cores{};
  // As they were when last looked at.
  float weight = 0;
  std::vector<float> per_core{};  ///< One over the cores; 0: it needs none.
  std::vector<float> weights{};
};

/// What is free of a worker's devices and cores.
struct Rooms {
  std::array<std::uint32_t, kMaxDevicesPerWorker> of{};
  std::size_t devices = 0;
  std::uint32_t cpus = 0;
};

/// Devices of workers that look alike, and which of them suit each kind.
struct Shape {
  std::vector<DeviceSpec> devices{};
  std::vector<DeviceSet> suits{};
};

bool suits_kind(const DeviceSpec& device, const KindKey& kind) {
  if (device.memory_mb < kind.memory_mb) return false;
  return kind.models.empty() || std::ranges::any_of(kind.models, [&](const std::string& wanted) {
           return is_model(device.model, wanted);
         });
}

/// What is expected to come, and how much of a worker that cannot use.
class Expectation {
 public:
  /// The number of the kind; kMaxKinds: there are too many.
  std::size_t kind(const KindKey& key) {
    const auto known = numbers_.find(key);
    if (known != numbers_.end()) return known->second;
    if (kinds_.size() == kMaxKinds) return kMaxKinds;
    kinds_.push_back({key, {}, 0, {}, {}});
    return numbers_[key] = kinds_.size() - 1;
  }
  [[nodiscard]] const std::vector<Kind>& kinds() const { return kinds_; }

  void count(std::size_t kind, std::uint32_t cpus) {
    if (kind == kMaxKinds) return;
    auto& cores = kinds_[kind].cores;
    if (cores.size() >= kMaxCores) {
      const auto next = cores.lower_bound(cpus);
      cpus = next == cores.end() ? cores.rbegin()->first : next->first;
    }
    ++cores[cpus];
    ++counted_;
  }

  /// Whether so much has come that what is expected was looked at anew.
  bool look() {
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

  /// How much of the free devices is expected to be of no use.
  [[nodiscard]] float fragmentation(const Rooms& rooms, const Shape& shape) const {
    float total = 0;
    for (std::size_t i = 0; i < rooms.devices; ++i) total += static_cast<float>(rooms.of[i]);
    float sum = 0;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      sum += useless_for(kinds_[i], rooms, shape.suits[i], total);
    }
    return sum;
  }

 private:
  static float useless_for(const Kind& kind, const Rooms& rooms, DeviceSet suits, float total) {
    const KindKey& key = kind.key;
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
      const std::int32_t times =
          std::min(most, static_cast<std::int32_t>(std::min(by_cores, 1e6F)));
      fits += times > 0 ? kind.weights[c] : 0;
      often += kind.weights[c] * static_cast<float>(times);
    }
    const auto unit = static_cast<float>(key.gpus * key.share);
    return kOften * (kind.weight * total - unit * often) +
           (1 - kOften) * (fits * rest + (kind.weight - fits) * total);
  }

  std::vector<Kind> kinds_;
  std::map<KindKey, std::size_t> numbers_;
  std::uint64_t counted_ = 0;
  std::uint64_t next_look_ = 1;
};

/// What a task would add to a worker, and where on it.
struct Step {
  float added = 0;
  DeviceSet devices{};
  bool known = false;
};

/// One worker with what is known of it as it is now.
struct Node {
  const Worker* worker = nullptr;
  std::size_t shape = 0;
  float now = 0;
  std::uint32_t units = 0;  ///< Free of all devices.
  bool now_known = false;
  std::vector<Step> steps{};  ///< By number of the question.
};

}  // namespace

struct FgdPolicy::Parts {
  Expectation expected;
  std::vector<Shape> shapes;
  std::vector<Node> nodes;
  std::unordered_map<WorkerId, std::size_t> places;
  std::map<std::pair<KindKey, std::uint32_t>, std::size_t> questions;
  std::unordered_set<const TaskSpec*> waiting;  ///< Counted though they found no place.
  const WorkerPool* pool = nullptr;
  std::uint64_t version = 0;

  void follow(const WorkerPool& workers);
  std::size_t shape_of(const WorkerSpec& spec);
  void add_kind();
  void forget_steps();
  std::size_t question(const KindKey& kind, std::uint32_t cpus);
  const Step& step(Node& node, const Needs& needs, std::size_t question);
  Step weigh(const Node& node, const Needs& needs) const;
};

namespace {

/// Questions that are remembered; beyond that all are forgotten.
constexpr std::size_t kMaxQuestions = 1024;
constexpr std::size_t kMaxShapes = 1024;

Rooms rooms_of(const Worker& worker) {
  Rooms rooms;
  rooms.devices = worker.spec.devices.size();
  rooms.cpus = worker.free_cpus;
  for (std::size_t i = 0; i < rooms.devices; ++i) {
    rooms.of[i] = worker.room(DeviceId{static_cast<std::uint16_t>(i)});
  }
  return rooms;
}

/// Devices that differ in what is free and in what they are; of equal ones the first.
std::vector<DeviceId> devices_to_try(const Worker& worker, const Needs& needs) {
  std::vector<DeviceId> tried;
  for (std::size_t i = 0; i < worker.spec.devices.size(); ++i) {
    const DeviceId id{static_cast<std::uint16_t>(i)};
    if (!worker.gives({std::uint64_t{1} << i}, needs)) continue;
    const bool seen = std::ranges::any_of(tried, [&](DeviceId other) {
      return worker.room(other) == worker.room(id) &&
             worker.spec.devices[other.value].model == worker.spec.devices[i].model &&
             worker.spec.devices[other.value].memory_mb == worker.spec.devices[i].memory_mb;
    });
    if (!seen) tried.push_back(id);
  }
  return tried;
}

}  // namespace

std::size_t FgdPolicy::Parts::shape_of(const WorkerSpec& spec) {
  const auto alike = [&](const Shape& shape) {
    return std::ranges::equal(shape.devices, spec.devices, [](const auto& a, const auto& b) {
      return a.model == b.model && a.memory_mb == b.memory_mb;
    });
  };
  const auto known = std::ranges::find_if(shapes, alike);
  if (known != shapes.end()) return static_cast<std::size_t>(known - shapes.begin());
  Shape shape{spec.devices, {}};
  for (const Kind& kind : expected.kinds()) {
    DeviceSet suits;
    for (std::size_t i = 0; i < spec.devices.size(); ++i) {
      if (suits_kind(spec.devices[i], kind.key)) suits.add({static_cast<std::uint16_t>(i)});
    }
    shape.suits.push_back(suits);
  }
  shapes.push_back(std::move(shape));
  return shapes.size() - 1;
}

void FgdPolicy::Parts::add_kind() {
  const std::vector<Kind>& kinds = expected.kinds();
  for (Shape& shape : shapes) {
    while (shape.suits.size() < kinds.size()) {
      DeviceSet suits;
      const KindKey& key = kinds[shape.suits.size()].key;
      for (std::size_t i = 0; i < shape.devices.size(); ++i) {
        if (suits_kind(shape.devices[i], key)) suits.add({static_cast<std::uint16_t>(i)});
      }
      shape.suits.push_back(suits);
    }
  }
}

void FgdPolicy::Parts::forget_steps() {
  for (Node& node : nodes) {
    node.steps.clear();
    node.now_known = false;
  }
}

// Takes over what has changed since it was last asked.
void FgdPolicy::Parts::follow(const WorkerPool& workers) {
  const bool fresh = pool != &workers;
  const WorkerPool::Changes changes = workers.changes_since(fresh ? 0 : version);
  pool = &workers;
  version = workers.version();
  if (changes.whole || !changes.removed.empty() || shapes.size() > kMaxShapes) {
    nodes.clear();
    places.clear();
    shapes.clear();
    for (const Worker* worker : workers.all()) {
      places[worker->id] = nodes.size();
      nodes.push_back({worker, shape_of(worker->spec), 0, 0, false, {}});
    }
    return;
  }
  for (const Worker* worker : changes.workers) {
    const auto [place, added] = places.try_emplace(worker->id, nodes.size());
    if (added) nodes.emplace_back();
    Node& node = nodes[place->second];
    node.worker = worker;
    node.shape = shape_of(worker->spec);
    node.now_known = false;
    for (Step& step : node.steps) step.known = false;
  }
}

std::size_t FgdPolicy::Parts::question(const KindKey& kind, std::uint32_t cpus) {
  if (questions.size() == kMaxQuestions) {
    questions.clear();
    forget_steps();
  }
  return questions.try_emplace({kind, cpus}, questions.size()).first->second;
}

Step FgdPolicy::Parts::weigh(const Node& node, const Needs& needs) const {
  const Worker& worker = *node.worker;
  const Shape& shape = shapes[node.shape];
  Rooms rooms = rooms_of(worker);
  rooms.cpus -= needs.cpus;
  Step best{std::numeric_limits<float>::infinity(), {}, true};
  const auto consider = [&](DeviceSet devices) {
    Rooms then = rooms;
    devices.each([&](DeviceId id) { then.of[id.value] -= needs.share; });
    const float added = expected.fragmentation(then, shape) - node.now;
    if (added < best.added) best = {added, devices, true};
  };
  if (needs.gpus != 1) {
    consider(worker.choose(needs));
  } else {
    for (const DeviceId id : devices_to_try(worker, needs)) {
      consider({std::uint64_t{1} << id.value});
    }
  }
  return best;
}

const Step& FgdPolicy::Parts::step(Node& node, const Needs& needs, std::size_t question) {
  if (!node.now_known) {
    const Rooms rooms = rooms_of(*node.worker);
    node.now = expected.fragmentation(rooms, shapes[node.shape]);
    node.units = 0;
    for (std::size_t i = 0; i < rooms.devices; ++i) node.units += rooms.of[i];
    node.now_known = true;
  }
  if (node.steps.size() <= question) node.steps.resize(question + 1);
  Step& step = node.steps[question];
  if (!step.known) step = weigh(node, needs);
  return step;
}

FgdPolicy::FgdPolicy() : parts_(std::make_unique<Parts>()) {}
FgdPolicy::~FgdPolicy() = default;

std::optional<Assignment> FgdPolicy::try_assign(const WorkerPool& workers, const TaskSpec& task) {
  Parts& p = *parts_;
  const Needs needs = needs_of(task);
  const KindKey kind = kind_of(needs);
  const std::size_t number = p.expected.kind(kind);
  p.add_kind();
  // One that waits is asked about again and again, and counts once.
  const bool counted = p.waiting.erase(&task) == 1;
  if (!counted) p.expected.count(number, needs.cpus);
  if (p.expected.look()) p.forget_steps();
  p.follow(workers);
  const std::size_t question = p.question(kind, needs.cpus);
  struct Rank {
    float added;
    std::uint32_t left;
    std::uint32_t cpus;
    auto operator<=>(const Rank&) const = default;
  };
  const Node* best = nullptr;
  Rank least{};
  for (Node& node : p.nodes) {
    const Worker& worker = *node.worker;
    if (!worker.open || worker.free_cpus < needs.cpus) continue;
    if (number < kMaxKinds && p.shapes[node.shape].suits[number].size() < needs.gpus) continue;
    if (!worker.fits(needs)) continue;
    const float added = p.step(node, needs, question).added;
    const Rank rank{added, node.units, worker.free_cpus};
    if (best == nullptr || rank < least || (rank == least && ByName{}(&worker, best->worker))) {
      best = &node;
      least = rank;
    }
  }
  if (best != nullptr) return Assignment{best->worker->id, best->steps[question].devices};
  if (p.waiting.size() == kMaxWaiting) p.waiting.clear();
  p.waiting.insert(&task);
  return std::nullopt;
}

Assignment FgdPolicy::assign_task(const WorkerPool& workers, const TaskSpec& task) {
  const std::optional<Assignment> assignment = try_assign(workers, task);
  if (assignment) return *assignment;
  fail(ErrorCode::kResourceExhausted, "no worker has room for the task '{}' now", task.name);
}

}  // namespace harmonics::inline in_cluster
