// For the planner's tests: the example inputs.
#pragma once

#include <filesystem>

#include <harmonics/plan/inputs.h>

#include <tree_testing.h>

namespace harmonics::inline in_plan {

/// Where the example files are.
inline std::filesystem::path example_folder() { return source_folder() / "examples/plan"; }

/// The two ViT models on four Minnowboards and four RCC boards.
inline PlanInputs example_inputs() {
  const std::filesystem::path folder = example_folder();
  return read_plan_inputs({.models = folder / "models.yml",
                           .types = folder / "device_types.yml",
                           .hosts = folder / "devices.yml",
                           .links = {}});
}

}  // namespace harmonics::inline in_plan
