#include <harmonics/schedule/recompute.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/custody/keys.h>
#include <harmonics/schedule/secure_run.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr const char* kAuditor = "auditor";

bool signs_weights_within(const ChainAccounts& suspect, const AuditStretch& stretch) {
  return std::ranges::any_of(suspect, [&](const auto& stage) {
    const auto next = stage.second.weights.upper_bound(stretch.first);
    return next != stage.second.weights.end() && next->first < stretch.end;
  });
}

bool signs_layers(const ChainAccounts& suspect) {
  return std::ranges::any_of(suspect, [](const auto& stage) {
    return std::ranges::any_of(stage.second.steps,
                               [](const auto& step) { return !step.second.layers.empty(); });
  });
}

}  // namespace

Chain recompute(const AuditStretch& stretch, const ChainAccounts& suspect,
                const MakeAuditedLearner& make, const std::filesystem::path& scratch) {
  const std::filesystem::path keys = scratch / "keys";
  if (!std::filesystem::exists(keys)) SigningKey::make(kAuditor).save(keys);
  SecureOptions options;
  options.on = true;
  options.key = kAuditor;
  options.keys = keys;
  options.chain = scratch / "stretch.chain";
  options.weights_every = signs_weights_within(suspect, stretch) ? 1 : 0;
  options.layers = signs_layers(suspect);
  remove_tree(options.chain);
  const std::unique_ptr<Learner> learner = make(options);
  const auto steps = [&] {
    return static_cast<std::uint64_t>(learner->trainer().row().state().steps);
  };
  if (!stretch.checkpoint.empty()) {
    learner->load_checkpoint(stretch.checkpoint);
    // The chain of the run goes on without us: ours begins here.
    learner->trainer().row().custody()->restore({});
  }
  if (steps() != stretch.first) {
    fail(ErrorCode::kFailedPrecondition, "'{}' is of step {}, not of step {}",
         stretch.checkpoint.string(), steps(), stretch.first);
  }
  while (steps() < stretch.end) learner->step();
  learner->close();
  return read_chain(options.chain);
}

}  // namespace harmonics::inline in_schedule
