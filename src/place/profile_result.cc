#include <harmonics/place/profile_result.h>

#include <algorithm>

#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_place {

ModelProfile GraphProfile::model() const {
  ModelProfile model;
  for (const UnitProfile& unit : units) {
    model.memory_mb.push_back(static_cast<double>(unit.memory.total()) / kBytesPerMegabyte);
  }
  model.parameters_in = parameters_in;
  model.parameters_out = parameters_out;
  model.tied_out = tied_out;
  return model;
}

LayerTimes GraphProfile::times() const {
  LayerTimes times{batch_size, dtype, {}};
  for (const UnitProfile& unit : units) times.time_s.push_back(unit.time_s);
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
