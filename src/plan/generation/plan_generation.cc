#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <harmonics/base/error.h>

#include "generation_steps.h"
#include "least_value.h"

namespace harmonics::inline in_plan {
namespace {

const double kUnknownValue = std::numeric_limits<double>::infinity();

// Plans one model; see plan_generation.
class GenerationSearch {
 public:
  GenerationSearch(const GenerationModel& model, const GenerationOptions& options)
      : model_(model), options_(options), steps_(model, options) {}

  GenerationOutcome run() {
    switch (options_.goal) {
      case GenerationGoal::kTokens: shortest_cycle(); break;
      case GenerationGoal::kFirstToken: soonest_token(); break;
      case GenerationGoal::kBoth: soonest_of_short_cycles(); break;
    }
    outcome_.value_s = best_;
    outcome_.lower_bound_s = std::min(bound_, best_);
    outcome_.proven = outcome_.lower_bound_s >= best_ * (1 - kSameGenerationValue);
    if (outcome_.proven) outcome_.lower_bound_s = best_;
    const StepShare share = share_ ? *share_ : steps_.prompt_share(placement_);
    outcome_.figures = steps_.figures(placement_, share);
    outcome_.placement = steps_.without_answers(std::move(placement_));
    return std::move(outcome_);
  }

 private:
  // A way to share out, and what is known of the cycles that it can have.
  struct Candidate {
    StepShare share;
    double least_period_s = 0;
    double bound = 0;
  };

  // The shortest period, and any plan that has it.
  PlanOutcome fastest(const GenerationStep& step) {
    PlannerOptions planner;
    planner.costs.buffers_in = options_.buffers_in;
    planner.costs.buffers_out = options_.buffers_out;
    planner.preference = PlanPreference::kNone;
    planner.work = options_.work;
    PlanOutcome found = make_plan(step.problem, planner);
    outcome_.work += found.work;
    return found;
  }

  bool consider(const Placement& placement, double value, const std::optional<StepShare>& share) {
    if (value >= best_) return false;
    best_ = value;
    placement_ = placement;
    share_ = share;
    return true;
  }

  double cycle_s(const StepShare& share, const Placement& whole) const {
    return steps_.figures(whole, share).cycle_s;
  }

  // What the shortest period leaves open.
  std::vector<Candidate> cycle_candidates() {
    std::vector<Candidate> all;
    for (const StepShare& share : steps_.shares()) {
      try {
        all.push_back(cycle_candidate(share));
      } catch (const NoFeasiblePlan& reason) {
        // Its buffers have no room; one that was not found may be there all the same.
        if (std::string_view(reason.what()).starts_with("no plan was found")) bound_ = 0;
        if (all.empty() && share.sequences == steps_.shares().back().sequences) throw;
      }
    }
    std::ranges::stable_sort(all, {}, &Candidate::bound);
    return all;
  }

  Candidate cycle_candidate(const StepShare& share) {
    const GenerationStep& step = steps_.decode(share.sequences);
    const PlanOutcome found = fastest(step);
    consider(found.placement, cycle_s(share, found.placement), share);
    return {share, found.lower_bound_s, static_cast<double>(share.in_flight) * found.lower_bound_s};
  }

  void shortest_cycle() {
    candidates_ = cycle_candidates();
    for (Candidate& one : candidates_) {
      if (one.bound < best_ * (1 - kSameGenerationValue)) search_cycles(one);
      bound_ = std::min(bound_, one.bound);
    }
  }

  void search_cycles(Candidate& one) {
    const auto in_flight = static_cast<double>(one.share.in_flight);
    const LeastValue found = find_least_value(
        {.step = steps_.decode(one.share.sequences),
         .value = [=](double period, double way) { return std::max(in_flight * period, way); },
         .period_of = [=](double most, double) { return most / in_flight; },
         .least_period_s = one.least_period_s,
         .known = placement_,
         .known_value = best_,
         .work = options_.work});
    outcome_.work += found.work;
    consider(found.placement, found.value, one.share);
    one.bound = std::max(one.bound, found.bound);
  }

  // The time to the first token with so many chunks in flight, by the period and way of a chunk.
  LeastValueQuestion first_token_question(std::int64_t in_flight) {
    const std::int64_t chunks = steps_.chunks();
    const auto rounds = static_cast<double>((chunks - 1) / in_flight);
    const auto rest = static_cast<double>((chunks - 1) % in_flight);
    return {.step = steps_.prefill(),
            .value = [=](double period,
                         double way) { return first_token_s(chunks, in_flight, period, way); },
            .period_of =
                [=](double most, double way) {
                  const double spare = most - way;
                  double least = kUnknownValue;
                  if (chunks > 1) least = spare / static_cast<double>(chunks - 1);
                  if (rest > 0) least = std::min(least, (spare - rounds * way) / rest);
                  return std::max(0.0, least);
                },
            .known = placement_,
            .known_value = best_,
            .work = options_.work};
  }

  void soonest_token() {
    const GenerationStep& step = steps_.prefill();
    const PlanOutcome start = fastest(step);
    const std::int64_t in_flight = std::min(steps_.chunks(), kMaxStepsInFlight);
    consider(start.placement,
             first_token_s(steps_.chunks(), in_flight, step.period_s(start.placement),
                           step.way_s(start.placement)),
             std::nullopt);
    LeastValueQuestion question = first_token_question(in_flight);
    question.least_period_s = start.lower_bound_s;
    const LeastValue found = find_least_value(question);
    outcome_.work += found.work;
    consider(found.placement, found.value, std::nullopt);
    bound_ = found.bound;
  }

  // More steps in flight with as many sequences in each make no shorter cycle, but chunks wait
  // less.
  std::vector<Candidate> prompt_candidates() const {
    std::vector<Candidate> all;
    const std::int64_t sequences = model_.wish().sequences;
    const std::int64_t most = std::min(sequences, kMaxStepsInFlight);
    for (Candidate one : candidates_) {
      const double share_bound = one.bound;
      const auto least = static_cast<double>(one.share.in_flight);
      for (; one.share.in_flight <= most; ++one.share.in_flight) {
        const auto in_flight = static_cast<double>(one.share.in_flight);
        const std::int64_t share = (sequences + one.share.in_flight - 1) / one.share.in_flight;
        const bool helps = in_flight == least || one.share.in_flight <= steps_.chunks();
        if (share != one.share.sequences || !helps) break;
        one.bound = std::max(share_bound, in_flight * one.least_period_s);
        all.push_back(one);
      }
    }
    return all;
  }

  void soonest_of_short_cycles() {
    shortest_cycle();
    outcome_.least_cycle_s = best_;
    outcome_.least_cycle_proven = bound_ >= best_ * (1 - kSameGenerationValue);
    const double longest = best_ / (1 - options_.tolerance);
    best_ = steps_.figures(placement_, *share_).first_token_s;
    if (bound_ > 0) bound_ = kUnknownValue;
    for (const Candidate& one : prompt_candidates()) {
      if (one.bound > longest * (1 + kSameGenerationValue)) continue;
      LeastValueQuestion question = first_token_question(one.share.in_flight);
      question.kept = &steps_.decode(one.share.sequences);
      question.kept_period_s = longest / static_cast<double>(one.share.in_flight);
      question.kept_way_s = longest;
      const LeastValue found = find_least_value(question);
      outcome_.work += found.work;
      consider(found.placement, found.value, one.share);
      bound_ = std::min(bound_, found.bound);
    }
  }

  const GenerationModel& model_;
  const GenerationOptions& options_;
  GenerationSteps steps_;
  GenerationOutcome outcome_;
  std::vector<Candidate> candidates_;
  Placement placement_;  // with whoever takes the answers
  std::optional<StepShare> share_;
  double best_ = kUnknownValue;
  double bound_ = kUnknownValue;
};

// Throws unless there is a plan at all. Without whoever takes the answers, so that an explanation
// speaks of hosts alone.
void expect_plan(const GenerationModel& model, const GenerationOptions& options) {
  PlannerOptions planner;
  planner.costs.buffers_in = options.buffers_in;
  planner.costs.buffers_out = options.buffers_out;
  planner.preference = PlanPreference::kNone;
  const std::int64_t least = GenerationSteps(model, options).shares().back().sequences;
  (void)make_plan(options.goal == GenerationGoal::kFirstToken ? model.prefill_step(false)
                                                              : model.decode_step(least, false),
                  planner);
}

// Whether there is a plan for so many sequences.
bool has_room(const PlanInputs& inputs, GenerationWish wish, const GenerationOptions& options,
              std::int64_t sequences) {
  wish.sequences = sequences;
  try {
    expect_plan(GenerationModel(inputs, wish), options);
    return true;
  } catch (const NoFeasiblePlan&) {
    return false;
  }
}

}  // namespace

std::int64_t most_sequences(const PlanInputs& inputs, const GenerationWish& wish,
                            const GenerationOptions& options) {
  std::int64_t room = 0;
  std::int64_t none = wish.sequences;
  while (none - room > 1) {
    const std::int64_t middle = room + (none - room) / 2;
    (has_room(inputs, wish, options, middle) ? room : none) = middle;
  }
  return room;
}

namespace {

// Says what is missing, and for how many sequences there is room.
void explain_no_plan(const GenerationModel& model, const GenerationOptions& options) {
  try {
    expect_plan(model, options);
  } catch (const NoFeasiblePlan& reason) {
    const GenerationWish& wish = model.wish();
    const std::int64_t room = most_sequences(model.inputs(), wish, options);
    throw NoFeasiblePlan(format(
        "{}. Of that, the caches of {} sequences of {} tokens take {:.1f} MB: {}",
        std::string_view(reason.what()), wish.sequences, wish.context,
        model.cache_mb(wish.sequences),
        room > 0 ? format("there is room for {} such sequences", room)
                 : std::string("there is no room for a single one, try a shorter --context")));
  }
}

}  // namespace

GenerationOutcome plan_generation(const GenerationModel& model, const GenerationOptions& options) {
  if (!(options.tolerance >= 0 && options.tolerance < 1)) {
    fail(ErrorCode::kInvalidArgument, "a share of {} that may be lost is not from 0 up to 1",
         options.tolerance);
  }
  try {
    return GenerationSearch(model, options).run();
  } catch (const NoFeasiblePlan&) {
    explain_no_plan(model, options);
    throw;
  }
}

}  // namespace harmonics::inline in_plan
