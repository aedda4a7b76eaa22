#include <harmonics/plan/choice.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace harmonics::inline in_plan {
namespace {

// Whether a is the better choice.
bool better(const TriedProfile& a, const TriedProfile& b, PlanGoal goal) {
  return goal == PlanGoal::kLatency ? a.latency_s < b.latency_s
                                    : a.seconds_per_sample < b.seconds_per_sample;
}

std::vector<ProfileKey> profiles_to_try(const PlanInputs& inputs, const PlanRequest& request,
                                        const ProfileFreedom& freedom) {
  if (!freedom.batch_size && !freedom.dtype) return {{request.batch_size, request.dtype}};
  std::vector<ProfileKey> keys;
  for (ProfileKey& key : measured_profiles(inputs, request.model)) {
    if (!freedom.batch_size && key.batch_size != request.batch_size) continue;
    if (!freedom.dtype && key.dtype != request.dtype) continue;
    keys.push_back(std::move(key));
  }
  if (keys.empty()) keys.push_back({request.batch_size, request.dtype});
  return keys;
}

}  // namespace

ProfilePlan plan_best_profile(const PlanInputs& inputs, const PlanRequest& request,
                              const PlannerOptions& options, const ProfileFreedom& freedom) {
  std::vector<TriedProfile> tried;
  std::optional<ProfilePlan> best;
  TriedProfile best_figures;
  std::optional<NoFeasiblePlan> refusal;
  for (const ProfileKey& key : profiles_to_try(inputs, request, freedom)) {
    PlanRequest one = request;
    one.batch_size = key.batch_size;
    one.dtype = key.dtype;
    PlanProblem problem = make_problem(inputs, one);
    TriedProfile figures{key, false, 0, 0};
    try {
      PlanOutcome outcome = make_plan(problem, options);
      figures.feasible = true;
      figures.latency_s = outcome.latency_s;
      figures.seconds_per_sample = outcome.period_s / static_cast<double>(key.batch_size);
      if (!best || better(figures, best_figures, options.goal)) {
        best = ProfilePlan{key, std::move(problem), std::move(outcome), {}};
        best_figures = figures;
      }
    } catch (const NoFeasiblePlan& error) {
      if (!refusal) refusal = error;
    }
    tried.push_back(figures);
  }
  if (!best) throw NoFeasiblePlan(*refusal);
  best->tried = std::move(tried);
  return std::move(*best);
}

std::optional<AloneHost> fastest_alone(const PlanInputs& inputs, const PlanRequest& request) {
  const auto model = inputs.models.find(request.model);
  if (model == inputs.models.end()) return std::nullopt;
  const std::vector<double>& memory = model->second.memory_mb;
  const double needed_mb = std::accumulate(memory.begin(), memory.end(), 0.0);
  std::optional<AloneHost> best;
  for (const auto& [type, hosts] : inputs.hosts) {
    const auto known = inputs.types.find(type);
    const auto host = std::ranges::find_if(hosts, [&](const std::string& name) {
      return std::ranges::find(request.excluded_hosts, name) == request.excluded_hosts.end();
    });
    if (host == hosts.end() || known == inputs.types.end()) continue;
    const auto profiles = known->second.models.find(request.model);
    if (profiles == known->second.models.end() || known->second.memory_mb <= needed_mb) continue;
    for (const LayerTimes& times : profiles->second) {
      const double seconds = std::accumulate(times.time_s.begin(), times.time_s.end(), 0.0);
      if (times.dtype != request.dtype || seconds <= 0) continue;
      const double rate = static_cast<double>(times.batch_size) / seconds;
      if (best && best->samples_per_s >= rate) continue;
      best = AloneHost{*host, type, times.batch_size, rate};
    }
  }
  return best;
}

}  // namespace harmonics::inline in_plan
