#include "sim_clients.h"

#include <array>

namespace harmonics::inline in_sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array<const char*, 3> kUsers{"ann", "bob", "eve"};
const Caller kAdmin{"admin", true};

}  // namespace

SimClients::SimClients(World& world, Witness& witness, bool minded,
                       std::function<void(ServerEvent)> send)
    : world_(world), witness_(witness), minded_(minded), send_(std::move(send)) {
  if (world_.chance(0.5)) {
    ask(QuotaRequest{RequestId{}, kAdmin, "ann", {2, 0, 0, 1}});
  }
  world_.after(milliseconds(100), [this] { submit(); });
}

// A share of a device, counted things, a place, others to be away from, other ways to run.
void SimClients::add_wishes(TaskSpec& spec) {
  if (world_.chance(0.3)) {
    spec.required_gpus = 1;
    spec.gpu_share = static_cast<std::uint32_t>(1 + world_.below(kWholeDevice));
  }
  TaskTerms terms;
  if (world_.chance(0.2)) terms.resources = {{"fpga", 1 + world_.below(2)}};
  if (world_.chance(0.2)) terms.resources.emplace_back("tokens", world_.below(9));
  // One machine alone may have them.
  const bool alone = spec.gang == 1 && !spec.pipeline;
  if (alone && world_.chance(0.1)) terms.labels = {{"zone", "a"}};
  if (alone && world_.chance(0.1)) terms.gpu_models = {"A100"};
  if (world_.chance(0.1)) terms.apart = world_.chance(0.5) ? "db" : "web";
  spec.terms = std::move(terms);
  if (spec.pipeline || !world_.chance(0.2)) return;
  TaskVariant cores;
  cores.cpus = static_cast<std::uint32_t>(1 + world_.below(8));
  cores.weight = static_cast<std::uint32_t>(1 + world_.below(2 * kWholeDevice));
  TaskVariant share;
  share.required_gpus = 1;
  share.gpu_share = static_cast<std::uint32_t>(1 + world_.below(kWholeDevice));
  share.resources = {{"tokens", 1}};
  spec.variants = std::vector{cores, share};
}

TaskSpec SimClients::random_spec() {
  TaskSpec spec;
  spec.command = {"run"};
  spec.name = "task";
  spec.required_gpus = static_cast<std::uint32_t>(world_.below(3));
  spec.cpus = static_cast<std::uint32_t>(world_.below(3));
  if (world_.chance(0.2)) spec.gang = 2;
  if (world_.chance(0.15)) {
    spec.command.clear();
    PipelineSpec pipeline{.model = "m", .graph = "g"};
    pipeline.stages = static_cast<std::uint32_t>(world_.below(3));
    pipeline.elastic = world_.chance(0.5);
    set_pipeline(spec, std::move(pipeline));
  }
  if (world_.chance(0.2)) spec.array = static_cast<std::uint32_t>(2 + world_.below(3));
  if (world_.chance(0.3)) spec.priority = static_cast<std::int32_t>(world_.below(4));
  if (world_.chance(0.5)) spec.max_retries = static_cast<std::uint32_t>(world_.below(4));
  spec.max_losses =
      world_.chance(0.5) ? kUnlimitedLosses : 1 + static_cast<std::uint32_t>(world_.below(6));
  if (world_.chance(0.4)) spec.timeout_s = static_cast<std::uint32_t>(1 + world_.below(30));
  spec.on_disconnect = world_.chance(0.5) ? OnDisconnect::kContinue : OnDisconnect::kStop;
  if (minded_ && world_.chance(0.2)) spec.on_disconnect = OnDisconnect::kForever;
  if (world_.chance(0.4)) add_wishes(spec);
  // Machines come and go, and some are given up.
  spec.wait_for_machines = true;
  if (world_.chance(0.3) && !tasks_.empty()) {
    spec.depends_on.push_back(tasks_[world_.below(tasks_.size())]);
  }
  return spec;
}

void SimClients::submit() {
  if (stopped_) return;
  if (!tasks_.empty() && world_.chance(0.1)) {
    ask(CancelRequest{RequestId{}, kAdmin, tasks_[world_.below(tasks_.size())]});
  } else if (!tasks_.empty() && world_.chance(0.1)) {
    ask(PriorityRequest{RequestId{}, kAdmin, tasks_[world_.below(tasks_.size())],
                        static_cast<std::int32_t>(world_.below(6))});
  } else {
    const Caller user{kUsers[world_.below(kUsers.size())], false};
    SubmitRequest request{RequestId{}, user, random_spec()};
    // A gang of users within a quota of two devices could never start with more.
    if (request.caller.user == "ann" && request.spec.gang > 1) {
      request.spec.required_gpus = std::min(request.spec.required_gpus, 1U);
    }
    request.spec.idempotency_key = std::to_string(requests_);
    ask(request);
  }
  world_.after(world_.between(milliseconds(100), seconds(8)), [this] { submit(); });
}

void SimClients::ask(ServerEvent event) {
  const RequestId request{++requests_};
  std::visit(
      [&](auto& one) {
        if constexpr (requires { one.request; }) one.request = request;
      },
      event);
  open_[request] = std::move(event);
  repeat(request);
}

// A client that hears nothing asks again: the key of a task makes that harmless.
void SimClients::repeat(RequestId request) {
  const auto found = open_.find(request);
  if (found == open_.end()) return;
  send_(found->second);
  world_.after(seconds(5), [this, request] { repeat(request); });
}

void SimClients::forget(const std::string& worker) {
  ask(ForgetRequest{RequestId{}, kAdmin, worker});
}

void SimClients::answered(const Answer& answer) {
  const auto found = open_.find(answer.request);
  if (found == open_.end()) return;
  if (const auto* submitted = std::get_if<Submitted>(&answer.reply)) {
    witness_.acknowledged(submitted->first, submitted->count);
    tasks_.push_back(submitted->first);
  }
  open_.erase(found);
}

}  // namespace harmonics::inline in_sim
