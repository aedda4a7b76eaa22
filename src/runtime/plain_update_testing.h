// For tests: the one rule by which PlainBackend and its ParameterSet learn.
#pragma once

#include <map>
#include <string>

#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

inline void learn(Tensor& value, const Tensor& gradient, const Update& update) {
  const double rate = update.learning_rate * update.gradient_factor;
  const auto slopes = gradient.values<float>();
  const auto numbers = value.mutable_values<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(numbers[i] - rate * slopes[i]);
  }
}

inline std::map<std::string, double> square_sums_of(const NamedTensors& gradients) {
  std::map<std::string, double> sums;
  for (const auto& [name, gradient] : gradients) {
    double sum = 0;
    for (const float slope : gradient.values<float>()) sum += double{slope} * slope;
    sums[name] = sum;
  }
  return sums;
}

}  // namespace harmonics::inline in_runtime
