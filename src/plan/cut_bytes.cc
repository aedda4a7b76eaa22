#include <harmonics/plan/cut_bytes.h>

#include <algorithm>

namespace harmonics::inline in_plan {
namespace {

// Parameters and their gradients are float32 where activations are narrower.
constexpr std::int64_t kParameterBytes = 4;

}  // namespace

void set_cut_bytes(const ModelProfile& model, PlanProblem& problem) {
  const std::int64_t number = plan_dtype_bytes(problem.dtype);
  const double bytes = static_cast<double>(number) * static_cast<double>(problem.batch_size);
  problem.cut_bytes = {static_cast<double>(model.parameters_in) * bytes};
  for (const std::int64_t out : model.parameters_out) {
    problem.cut_bytes.push_back(static_cast<double>(out) * bytes);
  }
  problem.tied_bytes.clear();
  if (model.tied_out.empty()) return;
  problem.tied_bytes.push_back(0);
  for (const std::int64_t tied : model.tied_out) {
    problem.tied_bytes.push_back(static_cast<double>(tied * std::max(number, kParameterBytes)));
  }
}

}  // namespace harmonics::inline in_plan
