// From the files and a user's wishes to a planning problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/plan/inputs.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// Layers that must run on a certain host, or on hosts of a certain type. Counted from 1, both ends
/// included.
struct LayerPin {
  std::size_t first_layer = 0;
  std::size_t last_layer = 0;
  std::string where;
};

/// Reads "7=HOST", "3-9=HOST" or the same with a type. Anything else is an `Error`.
[[nodiscard]] LayerPin parse_layer_pin(std::string_view text);

struct PlanRequest {
  std::string model = "google/vit-base-patch16-224";
  std::string dtype = "torch.float32";
  std::int64_t batch_size = 8;
  std::vector<LayerPin> pins = {};
  /// When not empty: stages run on these hosts in this order (some may stay idle), on no others.
  std::vector<std::string> host_order = {};
  std::vector<std::string> excluded_hosts = {};
};

/// Builds the problem. Device types without a measurement for model, dtype and batch size are left
/// out with a warning; an unknown model, dtype, host or type in the request is an `Error` that
/// lists what there is.
[[nodiscard]] PlanProblem make_problem(const PlanInputs& inputs, const PlanRequest& request);

/// A batch size and dtype for which something was measured.
struct ProfileKey {
  std::int64_t batch_size = 0;
  std::string dtype;

  auto operator<=>(const ProfileKey&) const = default;
};
/// What was measured for a model on types that have hosts; ascending, each once.
[[nodiscard]] std::vector<ProfileKey> measured_profiles(const PlanInputs& inputs,
                                                        std::string_view model);

}  // namespace harmonics::inline in_plan
