// A policy library for the tests: takes the last worker that fits, and misbehaves when the task's
// name says so.
#include <poll.h>

#include <cstdlib>

#include <harmonics/base/error.h>
#include <harmonics/cluster/policy.h>

namespace {

class ContraryPolicy final : public harmonics::WorkloadPolicy {
 public:
  harmonics::Assignment assign_task(const harmonics::WorkerPool& workers,
                                    const harmonics::TaskSpec& task) override {
    if (task.name == "throw") throw std::runtime_error("I would rather not");
    if (task.name == "crash") std::abort();
    if (task.name == "hang") ::poll(nullptr, 0, -1);
    if (task.name == "slow") ::poll(nullptr, 0, 150);
    if (task.name == "lie") return {harmonics::WorkerId{999}, {}};
    const harmonics::Needs needs = harmonics::needs_of(task);
    const harmonics::Worker* chosen = nullptr;
    for (const harmonics::Worker* worker : workers.all()) {
      if (worker->open && worker->fits(needs)) chosen = worker;
    }
    if (chosen == nullptr) {
      harmonics::fail(harmonics::ErrorCode::kResourceExhausted, "no worker fits");
    }
    return {chosen->id, chosen->choose(needs)};
  }
};

}  // namespace

extern "C" harmonics::WorkloadPolicy* harmonics_make_policy() { return new ContraryPolicy; }
