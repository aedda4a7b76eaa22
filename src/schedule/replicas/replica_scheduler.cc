#include <harmonics/schedule/replica_scheduler.h>

#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "parts/part_thread.h"
#include "replica_producer.h"

namespace harmonics::inline in_schedule {
namespace {

/// True for an Error that a replica gets because another one is gone.
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == ErrorCode::kAborted || known.code() == ErrorCode::kUnavailable;
  } catch (...) {
    return false;
  }
}

/// What went wrong first, rather than what came of it.
class FirstFailure {
 public:
  void note(std::size_t replica, const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && (is_consequence(error) || !is_consequence(error_))) return;
    replica_ = replica;
    error_ = error;
  }
  /// Once all replicas are done.
  void rethrow(std::size_t replicas) const {
    if (error_ == nullptr) return;
    try {
      std::rethrow_exception(error_);
    } catch (const Error& error) {
      fail(error.code(), "replica {} of {}: {}", replica_, replicas, error.what());
    }
  }

 private:
  std::mutex mutex_;
  std::size_t replica_ = 0;
  std::exception_ptr error_;
};

}  // namespace

struct ReplicaScheduler::State {
  State(const std::vector<HarmonicGraph>& parts, const ReplicaOptions& wanted,
        const RuntimeOptions& options, const PipelineOptions& pipeline)
      : patience(wanted.reduction.deadline) {
    if (wanted.replicas < 1 || wanted.replicas > kMaxReductionRanks) {
      fail(ErrorCode::kInvalidArgument, "{} replicas: choose 1 to {}", wanted.replicas,
           kMaxReductionRanks);
    }
    if (!wanted.deploy.empty() && wanted.deploy.size() != wanted.replicas) {
      fail(ErrorCode::kInvalidArgument, "{} deployments for {} replicas: give one each, or none",
           wanted.deploy.size(), wanted.replicas);
    }
    auto ends = make_bus_ends(wanted.reduction.order, wanted.replicas);
    for (std::size_t i = 0; i < wanted.replicas; ++i) {
      const auto deploy = wanted.deploy.empty() ? DeploymentDescriptor{} : wanted.deploy[i];
      RuntimeOptions own = options;
      if (!own.secure.chain.empty()) own.secure.chain.concat(format(".part{}", i));
      replicas.emplace_back(parts, deploy, own, pipeline);
      replicas.back().join_replicas(std::move(ends[i]), wanted.reduction);
      if (i > 0) threads.push_back(std::make_unique<PartThread>(options.threads));
    }
  }

  /// Lets every replica do the same: the first on the caller's thread, the others on theirs.
  void each(const std::function<void(std::size_t, DistributedScheduler&)>& action) {
    FirstFailure failure;
    const auto act = [&](std::size_t replica) {
      try {
        action(replica, replicas[replica]);
      } catch (...) {
        failure.note(replica, std::current_exception());
      }
    };
    std::vector<std::future<void>> done;
    for (std::size_t i = 1; i < replicas.size(); ++i) {
      done.push_back(threads[i - 1]->post([&act, i] { act(i); }));
    }
    act(0);
    for (const std::future<void>& one : done) one.wait();
    failure.rethrow(replicas.size());
  }

  const Nanoseconds patience;
  std::vector<DistributedScheduler> replicas;
  std::vector<std::unique_ptr<PartThread>> threads;  // of all but the first
};

ReplicaScheduler::ReplicaScheduler(const std::vector<HarmonicGraph>& parts,
                                   const ReplicaOptions& replicas, const RuntimeOptions& options,
                                   const PipelineOptions& pipeline)
    : state_("scheduler", std::make_unique<State>(parts, replicas, options, pipeline)) {}
ReplicaScheduler::~ReplicaScheduler() = default;
ReplicaScheduler::ReplicaScheduler(ReplicaScheduler&&) noexcept = default;
ReplicaScheduler& ReplicaScheduler::operator=(ReplicaScheduler&&) noexcept = default;

void ReplicaScheduler::bindProducer(const std::string& name, ProducerPtr producer) {
  if (producer == nullptr)
    fail(ErrorCode::kInvalidArgument, "producer '{}' is bound to nothing", name);
  const auto readers = share_producer(producer, state_->replicas.size(), state_->patience);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    state_->replicas[i].bindProducer(name, readers[i]);
  }
}

void ReplicaScheduler::bindConsumer(const std::string& name, ConsumerPtr /*consumer*/) {
  fail(ErrorCode::kUnimplemented,
       "consumer '{}': each of {} replicas computes rows of its own; bind it in a run without "
       "replicas, or infer",
       name, state_->replicas.size());
}

StepReport ReplicaScheduler::step() {
  StepReport report;
  state_->each([&](std::size_t replica, DistributedScheduler& scheduler) {
    const StepReport own = scheduler.step();
    if (replica == 0) report = own;
  });
  return report;
}

FitReport ReplicaScheduler::fit(std::int64_t epochs, const FitOptions& options) {
  // All replicas evaluate, so that all see the same reason to stop.
  const std::size_t count = state_->replicas.size();
  std::vector<FitOptions> own(count);
  own[0] = options;
  own[0].evaluation.clear();
  for (std::size_t i = 1; i < count; ++i) {
    own[i].patience = options.patience;
    own[i].stop = options.stop;
  }
  for (const auto& [name, producer] : options.evaluation) {
    const auto readers = share_producer(producer, count, state_->patience);
    for (std::size_t i = 0; i < count; ++i) own[i].evaluation.emplace(name, readers[i]);
  }
  FitReport report;
  state_->each([&](std::size_t replica, DistributedScheduler& scheduler) {
    FitReport done = scheduler.fit(epochs, own[replica]);
    if (replica == 0) report = std::move(done);
  });
  return report;
}

void ReplicaScheduler::load_checkpoint(const std::filesystem::path& path) {
  state_->each(
      [&](std::size_t, DistributedScheduler& scheduler) { scheduler.load_checkpoint(path); });
}
void ReplicaScheduler::load_weights(const std::filesystem::path& path,
                                    const std::map<std::string, std::string>& names) {
  state_->each(
      [&](std::size_t, DistributedScheduler& scheduler) { scheduler.load_weights(path, names); });
}
std::string ReplicaScheduler::proof() const {
  std::string lines;
  for (const DistributedScheduler& replica : state_->replicas) {
    const std::string own = replica.proof();
    if (!own.empty()) lines += (lines.empty() ? "" : "\n") + own;
  }
  return lines;
}
void ReplicaScheduler::close() {
  state_->each([](std::size_t, DistributedScheduler& scheduler) { scheduler.close(); });
}
std::size_t ReplicaScheduler::replica_count() const { return state_->replicas.size(); }
Trainer& ReplicaScheduler::trainer() const { return state_->replicas.front().trainer(); }

}  // namespace harmonics::inline in_schedule
