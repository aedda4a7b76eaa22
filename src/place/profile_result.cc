#include <harmonics/place/profile_result.h>

#include <algorithm>

#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_place {

ModelProfile GraphProfile::model() const {
  const auto megabytes = [](std::int64_t bytes) {
    return static_cast<double>(bytes) / kBytesPerMegabyte;
  };
  ModelProfile model;
  for (const UnitProfile& unit : units) {
    const UnitMemory& memory = unit.memory;
    model.memory_mb.push_back(megabytes(memory.total()));
    if (mode != ProfileMode::kTraining) continue;
    model.training.fixed_mb.push_back(megabytes(memory.total() - memory.activations));
    model.training.kept_mb.push_back(megabytes(memory.kept));
    model.training.scratch_mb.push_back(megabytes(memory.scratch));
  }
  model.parameters_in = parameters_in;
  model.parameters_out = parameters_out;
  model.tied_out = tied_out;
  return model;
}

LayerTimes GraphProfile::times() const {
  LayerTimes times{.batch_size = batch_size, .dtype = dtype, .time_s = {}};
  for (const UnitProfile& unit : units) {
    times.time_s.push_back(unit.time_s);
    times.spread.push_back(unit.spread);
    if (mode == ProfileMode::kTraining) times.forward_s.push_back(unit.forward_s);
  }
  const auto is_none = [](double spread) { return spread == 0; };
  if (std::ranges::all_of(times.spread, is_none)) times.spread.clear();
  return times;
}

double GraphProfile::waited() const {
  double all = 0;
  double waited = 0;
  for (const UnitProfile& unit : units) {
    const double passed = unit.time_s / (1 - std::min(unit.waited, 0.99));
    all += passed;
    waited += passed - unit.time_s;
  }
  return all > 0 ? waited / all : 0;
}

double GraphProfile::total_s() const {
  double total = 0;
  for (const UnitProfile& unit : units) total += unit.time_s;
  return total;
}

}  // namespace harmonics::inline in_place
