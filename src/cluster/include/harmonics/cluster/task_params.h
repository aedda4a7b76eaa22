// The parameters of a task as its program sees them.
#pragma once

#include <string>
#include <string_view>

#include <harmonics/cluster/task.h>

namespace harmonics::inline in_cluster {

/// The variable in which a task finds a parameter: HARMONICS_PARAM_LEARNING_RATE for
/// "learning-rate".
[[nodiscard]] std::string param_variable(std::string_view key);

/// And how many it has of a counted resource: HARMONICS_RESOURCE_FPGA for "fpga".
[[nodiscard]] std::string resource_variable(std::string_view name);

/// Throws an `Error` (kInvalidArgument) for two parameters of which a task could see one only,
/// since they share a variable (`a-b`, `a_b`): for new tasks only, so that what a store holds can
/// always be read.
void check_params(const TaskSpec& spec);

}  // namespace harmonics::inline in_cluster
