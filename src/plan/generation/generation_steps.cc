#include "generation_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harmonics::inline in_plan {

double first_token_s(std::int64_t chunks, std::int64_t in_flight, double period_s, double way_s) {
  const auto rounds = static_cast<double>((chunks - 1) / in_flight);
  const auto rest = static_cast<double>((chunks - 1) % in_flight);
  return way_s +
         std::max(static_cast<double>(chunks - 1) * period_s, rounds * way_s + rest * period_s);
}

GenerationSteps::GenerationSteps(const GenerationModel& model, const GenerationOptions& options)
    : model_(model) {
  costs_.buffers_in = options.buffers_in;
  costs_.buffers_out = options.buffers_out;
  const std::int64_t sequences = model.wish().sequences;
  for (std::int64_t steps = 1; steps <= std::min(sequences, kMaxStepsInFlight); ++steps) {
    const std::int64_t share = (sequences + steps - 1) / steps;
    if (!shares_.empty() && shares_.back().sequences == share) continue;
    shares_.push_back({steps, share});
  }
}

const GenerationStep& GenerationSteps::decode(std::int64_t sequences) const {
  std::unique_ptr<GenerationStep>& step = decode_[sequences];
  if (!step) {
    step = std::make_unique<GenerationStep>(model_.decode_step(sequences, true), costs_);
  }
  return *step;
}

const GenerationStep& GenerationSteps::prefill() const {
  if (!prefill_) prefill_ = std::make_unique<GenerationStep>(model_.prefill_step(true), costs_);
  return *prefill_;
}

Placement GenerationSteps::without_answers(Placement whole) const {
  whole.pop_back();
  return whole;
}

Placement GenerationSteps::with_answers(Placement stages) const {
  const std::size_t layers = model_.layers();
  stages.push_back({layers, layers + 1, prefill().problem.classes.size() - 1, 1});
  return stages;
}

GenerationFigures GenerationSteps::figures(const Placement& whole, const StepShare& share) const {
  GenerationFigures made;
  const GenerationStep& step = decode(share.sequences);
  made.sequences = model_.wish().sequences;
  made.in_flight = share.in_flight;
  made.step_sequences = share.sequences;
  made.period_s = step.period_s(whole);
  made.way_s = step.way_s(whole);
  made.cycle_s = std::max(static_cast<double>(share.in_flight) * made.period_s, made.way_s);
  made.chunks = chunks();
  made.chunk_period_s = prefill().period_s(whole);
  made.chunk_way_s = prefill().way_s(whole);
  made.first_token_s =
      first_token_s(made.chunks, share.in_flight, made.chunk_period_s, made.chunk_way_s);
  return made;
}

StepShare GenerationSteps::prompt_share(const Placement& whole) const {
  const double period = prefill().period_s(whole);
  const double way = prefill().way_s(whole);
  const std::int64_t most = std::min(chunks(), kMaxStepsInFlight);
  const double needed = period > 0 ? std::ceil(way / period * (1 - kTimeTolerance)) : 1;
  const std::int64_t steps =
      std::clamp(static_cast<std::int64_t>(std::min(needed, 1e6)), std::int64_t{1}, most);
  const std::int64_t sequences = model_.wish().sequences;
  return {steps, (sequences + steps - 1) / steps};
}

}  // namespace harmonics::inline in_plan
