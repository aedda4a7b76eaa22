// For tests: what runtime's files with libtorch define, for a build that has none. There is the
// CPU, and PlainBackend computes on it.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/parameter_set.h>

#include "backends.h"
#include "inputs.h"
#include "plain_backend_testing.h"
#include "plain_update_testing.h"

namespace harmonics::inline in_runtime {

bool cuda_available() { return false; }
int cuda_device_count() { return 0; }
std::string torch_version() { return "none"; }
void use_compute_threads(int /*threads*/) {}
void use_deterministic_operations(bool /*deterministic*/) {}
Tensor cpu_tensor(const Tensor& tensor) { return tensor; }
Tensor copy_to_device(const Tensor& tensor, Device /*device*/) { return tensor; }
void wait_for_device(Device /*device*/) {}
Backend best_backend() { return Backend::CPU; }

Tensor convert_tensor(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  fail(ErrorCode::kUnimplemented, "the plain backend keeps {} as they are",
       dtype_name(tensor.dtype()));
}

void fall_back_to_cpu(ErrorCode code, const std::string& lacking, bool strict) {
  if (strict) fail(code, "{}; choose another backend or drop strict", lacking);
  log_warn("runtime", "{}: using the CPU instead", lacking);
}

BackendChoice resolve_backend(const RuntimeOptions& options) {
  if (options.backend != Backend::CPU && options.backend != Backend::Auto) {
    fall_back_to_cpu(ErrorCode::kUnimplemented, "this test has a CPU alone", options.strict);
  }
  return {};
}

Device resolve_device(Backend /*backend*/, std::optional<std::uint32_t> /*index*/,
                      bool /*strict*/) {
  return {};
}

std::unique_ptr<StageBackend> make_torch_backend(HarmonicGraph graph, const RuntimeOptions& options,
                                                 Device /*device*/) {
  return std::make_unique<PlainBackend>(std::move(graph), options);
}

bool computes_in_float32(const HarmonicGraph& /*graph*/) { return true; }

const Tensor& fitting_value(const NamedTensors& values, const std::string& name,
                            const Shape& shape) {
  const auto found = values.find(name);
  if (found == values.end()) fail(ErrorCode::kNotFound, "there is no value for '{}'", name);
  if (found->second.shape() != shape) {
    fail(ErrorCode::kInvalidArgument, "'{}' has shape {} here, the value that came has {}", name,
         shape_text(shape), shape_text(found->second.shape()));
  }
  return found->second;
}

struct ParameterSet::State {
  NamedTensors values;
};

ParameterSet::ParameterSet(const NamedTensors& start, const OptimizerOptions& /*optimizer*/)
    : state_(new State{start}) {}
ParameterSet::~ParameterSet() = default;
ParameterSet::ParameterSet(ParameterSet&&) noexcept = default;
ParameterSet& ParameterSet::operator=(ParameterSet&&) noexcept = default;

NamedTensors ParameterSet::values() const { return state_->values; }
NamedTensors ParameterSet::optimizer_state() const { return {}; }

void ParameterSet::restore(const NamedTensors& values, const NamedTensors& /*optimizer_state*/) {
  for (const auto& [name, value] : state_->values) {
    (void)fitting_value(values, name, value.shape());
  }
  for (auto& [name, value] : state_->values) value = values.at(name);
}

void ParameterSet::update(const NamedTensors& gradients, const Update& update) {
  for (auto& [name, value] : state_->values) {
    const Tensor& gradient = fitting_value(gradients, name, value.shape());
    Tensor next = Tensor::of<float>(value.shape(), value.values<float>());
    learn(next, gradient, update);
    value = std::move(next);
  }
}

std::map<std::string, double> ParameterSet::square_sums(const NamedTensors& gradients) {
  return square_sums_of(gradients);
}

}  // namespace harmonics::inline in_runtime
