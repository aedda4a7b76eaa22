// Fragmentation gradient descent: a task goes where it adds the least to what the tasks that come
// cannot use (fgd_expectation.h). Workers that have the same free are one state; each question,
// which is what a task needs of devices and cores, keeps the states in order of what it would add.
#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/cluster/policy.h>

#include "fgd_expectation.h"

namespace harmonics::inline in_cluster {
namespace {

/// Tasks that found no place and are known to have been counted.
constexpr std::size_t kMaxWaiting = 4096;
/// Questions that are remembered; beyond that all are forgotten.
constexpr std::size_t kMaxQuestions = 1024;
constexpr std::size_t kMaxShapes = 1024;
/// States that are remembered beyond two for each worker; then the empty ones are forgotten.
constexpr std::size_t kSpareStates = 1024;
/// Of a question, for a state: it was not weighed, or no task of it fits there.
constexpr float kUnknown = -std::numeric_limits<float>::infinity();
constexpr float kNoPlace = std::numeric_limits<float>::infinity();

using Members = std::set<const Worker*, ByName>;

/// Open workers of one shape that have the same free.
struct State {
  std::size_t shape = 0;
  FgdRooms rooms{};
  Members members{};
  std::uint32_t units = 0;  ///< Free of all devices.
  float now = 0;            ///< Of no use as it is.
  bool now_known = false;
};

/// What decides between states: what is added, then whose room is less.
struct Rank {
  float added = 0;
  std::uint32_t units = 0;
  std::uint32_t cpus = 0;
  auto operator<=>(const Rank&) const = default;
};

/// What tasks need of devices and cores, and the states in order of what such a task would add.
struct Question {
  Needs needs{};
  std::size_t kind = kMaxFgdKinds;
  std::vector<float> added{};         ///< By state: or kUnknown, or kNoPlace.
  std::vector<bool> queued{};         ///< By state: it is in `heap`.
  std::vector<std::uint32_t> heap{};  ///< States; the first one's rank is the least.
  std::size_t seen = 0;               ///< Of the states that got members.
};

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

/// Whether a worker that has `rooms` has the cores and devices, however many of its tasks start.
bool has_room(const FgdRooms& rooms, const Worker& worker, const Needs& needs) {
  if (rooms.cpus < needs.cpus) return false;
  Needs one = needs;
  one.gpus = 1;
  std::uint32_t enough = 0;
  for (std::size_t i = 0; i < rooms.devices && enough < needs.gpus; ++i) {
    if (worker.gives({std::uint64_t{1} << i}, one)) ++enough;
  }
  return enough >= needs.gpus;
}

/// What a task would add to a worker, and where on it.
struct Step {
  float added = kNoPlace;
  DeviceSet devices{};
};

/// What of the needs a question is about: host memory, labels and such are asked of each worker.
Needs asked_of(const Needs& needs) {
  Needs asked{.gpus = needs.gpus,
              .gpu_memory_mb = needs.gpu_memory_mb,
              .cpus = needs.cpus,
              .share = needs.share};
  TaskTerms terms;
  if (needs.terms) terms.gpu_models = needs.terms->gpu_models;
  asked.terms = terms;
  return asked;
}

}  // namespace

struct FgdPolicy::Parts {
  /// Where a worker is; in no state while it is closed.
  struct Place {
    std::uint32_t state = 0;
    Members::iterator member{};
    bool in_state = false;
  };
  using StateKey = std::pair<std::size_t, std::vector<std::uint32_t>>;

  FgdExpectation expected;
  std::vector<FgdShape> shapes;
  std::vector<State> states;
  std::map<StateKey, std::uint32_t> state_numbers;
  std::unordered_map<WorkerId, Place> places;
  std::vector<std::uint32_t> populated;  ///< States, as they got their first members.
  std::map<Needs, Question> questions;
  std::unordered_set<const TaskSpec*> waiting;  ///< Counted though they found no place.
  const WorkerPool* pool = nullptr;
  std::uint64_t version = 0;

  void follow(const WorkerPool& workers);
  void start_anew(const WorkerPool& workers);
  void enter(const Worker& worker);
  std::uint32_t state_of(const Worker& worker);
  std::size_t shape_of(const WorkerSpec& spec);
  void forget_values();
  Question& question(const Needs& needs, std::size_t kind);
  void catch_up(Question& question);
  void weigh(Question& question, std::uint32_t number);
  Step weigh(const State& state, const Worker& worker, const Needs& needs) const;
  const Worker* find(Question& question, const Needs& needs);
  [[nodiscard]] Rank rank(const Question& question, std::uint32_t number) const {
    const State& state = states[number];
    return {question.added[number], state.units, state.rooms.cpus};
  }
  [[nodiscard]] auto later(const Question& question) const {
    return [this, &question](std::uint32_t a, std::uint32_t b) {
      return rank(question, a) > rank(question, b);
    };
  }
};

std::size_t FgdPolicy::Parts::shape_of(const WorkerSpec& spec) {
  const auto alike = [&](const FgdShape& shape) {
    return std::ranges::equal(shape.devices, spec.devices, [](const auto& a, const auto& b) {
      return a.model == b.model && a.memory_mb == b.memory_mb;
    });
  };
  const auto known = std::ranges::find_if(shapes, alike);
  if (known != shapes.end()) return static_cast<std::size_t>(known - shapes.begin());
  shapes.push_back({spec.devices, {}});
  expected.add_kinds(shapes.back());
  return shapes.size() - 1;
}

std::uint32_t FgdPolicy::Parts::state_of(const Worker& worker) {
  State state{.shape = shape_of(worker.spec), .rooms = fgd_rooms(worker)};
  std::vector<std::uint32_t> free{state.rooms.cpus};
  for (std::size_t i = 0; i < state.rooms.devices; ++i) {
    free.push_back(state.rooms.of[i]);
    state.units += state.rooms.of[i];
  }
  const auto number = static_cast<std::uint32_t>(states.size());
  const auto [known, added] = state_numbers.try_emplace({state.shape, std::move(free)}, number);
  if (added) states.push_back(std::move(state));
  return known->second;
}

void FgdPolicy::Parts::enter(const Worker& worker) {
  Place& place = places[worker.id];
  if (!worker.open) return;
  place.state = state_of(worker);
  State& state = states[place.state];
  if (state.members.empty()) populated.push_back(place.state);
  place.member = state.members.insert(&worker).first;
  place.in_state = true;
}

void FgdPolicy::Parts::start_anew(const WorkerPool& workers) {
  states.clear();
  state_numbers.clear();
  places.clear();
  shapes.clear();
  populated.clear();
  questions.clear();
  for (const Worker* worker : workers.all()) enter(*worker);
}

// Takes over what has changed since it was last asked.
void FgdPolicy::Parts::follow(const WorkerPool& workers) {
  const bool fresh = pool != &workers;
  const WorkerPool::Changes changes = workers.changes_since(fresh ? 0 : version);
  pool = &workers;
  version = workers.version();
  const bool full = states.size() > 2 * places.size() + kSpareStates ||
                    populated.size() > 16 * places.size() + kSpareStates;
  if (changes.whole || !changes.removed.empty() || shapes.size() > kMaxShapes || full) {
    start_anew(workers);
    return;
  }
  // All leave before one enters: their names may have changed, by which they are in order.
  for (const Worker* worker : changes.workers) {
    const auto place = places.find(worker->id);
    if (place == places.end() || !place->second.in_state) continue;
    states[place->second.state].members.erase(place->second.member);
    place->second.in_state = false;
  }
  for (const Worker* worker : changes.workers) enter(*worker);
}

// What is expected has changed, and with it all that was weighed.
void FgdPolicy::Parts::forget_values() {
  questions.clear();
  for (State& state : states) state.now_known = false;
}

Question& FgdPolicy::Parts::question(const Needs& needs, std::size_t kind) {
  if (questions.size() == kMaxQuestions) questions.clear();
  const auto [known, added] = questions.try_emplace(asked_of(needs));
  Question& question = known->second;
  if (added) {
    question.needs = known->first;
    question.kind = kind;
    question.added.assign(states.size(), kUnknown);
    question.queued.assign(states.size(), false);
    question.seen = populated.size();
    for (std::uint32_t state = 0; state < states.size(); ++state) {
      if (!states[state].members.empty()) weigh(question, state);
    }
  }
  catch_up(question);
  return question;
}

// Puts the states in line that have got members since.
void FgdPolicy::Parts::catch_up(Question& question) {
  question.added.resize(states.size(), kUnknown);
  question.queued.resize(states.size(), false);
  for (; question.seen < populated.size(); ++question.seen) {
    const std::uint32_t state = populated[question.seen];
    if (!question.queued[state] && !states[state].members.empty()) weigh(question, state);
  }
}

void FgdPolicy::Parts::weigh(Question& question, std::uint32_t number) {
  State& state = states[number];
  float& added = question.added[number];
  if (added == kUnknown) {
    const FgdShape& shape = shapes[state.shape];
    const Worker& worker = **state.members.begin();
    const std::size_t kind = question.kind;
    const bool suited = kind == kMaxFgdKinds || shape.suits[kind].size() >= question.needs.gpus;
    if (!std::exchange(state.now_known, true)) {
      state.now = expected.fragmentation(state.rooms, shape);
    }
    added = suited ? weigh(state, worker, question.needs).added : kNoPlace;
  }
  if (added == kNoPlace) return;
  question.queued[number] = true;
  question.heap.push_back(number);
  std::ranges::push_heap(question.heap, later(question));
}

Step FgdPolicy::Parts::weigh(const State& state, const Worker& worker, const Needs& needs) const {
  Step best;
  if (!has_room(state.rooms, worker, needs)) return best;
  FgdRooms rooms = state.rooms;
  rooms.cpus -= needs.cpus;
  const auto consider = [&](DeviceSet devices) {
    FgdRooms then = rooms;
    devices.each([&](DeviceId id) { then.of[id.value] -= needs.share; });
    const float added = expected.fragmentation(then, shapes[state.shape]) - state.now;
    if (added < best.added) best = {added, devices};
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

// The first worker with room in the first state that has one; of equal states the first by name.
const Worker* FgdPolicy::Parts::find(Question& question, const Needs& needs) {
  const Worker* best = nullptr;
  Rank least{};
  std::vector<std::uint32_t> looked_at;
  while (!question.heap.empty()) {
    const std::uint32_t number = question.heap.front();
    if (best != nullptr && rank(question, number) > least) break;
    std::ranges::pop_heap(question.heap, later(question));
    question.heap.pop_back();
    const Members& members = states[number].members;
    question.queued[number] = !members.empty();
    if (members.empty()) continue;
    looked_at.push_back(number);
    const auto found =
        std::ranges::find_if(members, [&](const Worker* worker) { return worker->fits(needs); });
    if (found == members.end()) continue;
    if (best == nullptr || ByName{}(*found, best)) best = *found;
    least = rank(question, number);
  }
  for (const std::uint32_t number : looked_at) {
    question.heap.push_back(number);
    std::ranges::push_heap(question.heap, later(question));
  }
  return best;
}

FgdPolicy::FgdPolicy() : parts_(std::make_unique<Parts>()) {}
FgdPolicy::~FgdPolicy() = default;

std::optional<Assignment> FgdPolicy::try_assign(const WorkerPool& workers, const TaskSpec& task) {
  Parts& p = *parts_;
  const Needs needs = needs_of(task);
  const std::size_t kind = p.expected.kind(fgd_kind(needs));
  for (FgdShape& shape : p.shapes) p.expected.add_kinds(shape);
  // One that waits is asked about again and again, and counts once.
  const bool counted = p.waiting.erase(&task) == 1;
  if (!counted) p.expected.count(kind, needs.cpus);
  if (p.expected.look()) p.forget_values();
  p.follow(workers);
  Question& question = p.question(needs, kind);
  if (const Worker* best = p.find(question, needs)) {
    const State& state = p.states[p.places.at(best->id).state];
    return Assignment{best->id, p.weigh(state, *best, question.needs).devices};
  }
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
