#include "torch_tokens/torch_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace harmonics::inline in_runtime {
namespace {

void unpack_rows(const WeightRows& rows, const at::Tensor& to) {
  const auto columns = static_cast<std::size_t>(rows.columns());
  float* const data = to.data_ptr<float>();
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    rows.unpack(row, {data + static_cast<std::size_t>(row) * columns, columns});
  }
}

std::string full_name(const WeightPart& part) {
  const auto& all = part.request.graph.layer_shape(part.request.layer).parameters;
  const auto spec = std::ranges::find(all, part.weight, &ParameterSpec::name);
  return spec == all.end() ? part.weight : parameter_name(part.request.node(), *spec);
}

}  // namespace

at::Tensor TorchWeights::matrix(const std::vector<WeightPart>& parts) {
  std::string key;
  std::vector<WeightRows> all;
  std::int64_t outputs = 0;
  for (const WeightPart& part : parts) {
    key += full_name(part) + ' ';
    all.push_back(part.request.rows(part.weight));
    outputs += all.back().rows();
  }
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  const std::int64_t columns = all.front().columns();
  at::Tensor made =
      at::empty({outputs, columns}, at::TensorOptions().dtype(numbers_).device(device_));
  std::int64_t first = 0;
  for (const WeightRows& rows : all) {
    const at::Tensor plain = at::empty({rows.rows(), columns}, at::kFloat);
    unpack_rows(rows, plain);
    made.narrow(0, first, rows.rows()).copy_(plain);
    first += rows.rows();
  }
  bytes_ += made.nbytes();
  made_.emplace(key, made);
  return made;
}

at::Tensor TorchWeights::bias(const std::vector<WeightPart>& parts) {
  std::vector<float> all;
  bool found = false;
  for (const WeightPart& part : parts) {
    std::vector<float> own = part.request.numbers(part.bias);
    found = found || !own.empty();
    if (own.empty()) own.resize(static_cast<std::size_t>(part.request.rows(part.weight).rows()));
    all.insert(all.end(), own.begin(), own.end());
  }
  if (!found) return {};
  return on_device(all, {static_cast<std::int64_t>(all.size())});
}

at::Tensor TorchWeights::vector(const TokenLayerRequest& request, const std::string& name) {
  const std::vector<float> all = request.numbers(name);
  if (all.empty()) return {};
  return on_device(all, {static_cast<std::int64_t>(all.size())});
}

at::Tensor TorchWeights::on_device(const std::vector<float>& values, at::IntArrayRef sizes) {
  const at::Tensor here = at::empty(sizes, at::kFloat);
  std::ranges::copy(values, here.data_ptr<float>());
  bytes_ += here.nbytes();
  return here.to(device_);
}

}  // namespace harmonics::inline in_runtime
