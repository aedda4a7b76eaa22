// The files of this module as YAML, within their ceilings.
#pragma once

#include <string_view>

#include <harmonics/plan/inputs.h>
#include <harmonics/yaml/yaml_tree.h>

namespace harmonics::inline in_plan {

/// As parse_yaml says.
[[nodiscard]] inline YamlNode parse_planner_file(std::string_view text, std::string_view name) {
  return parse_yaml(text, name,
                    {kMaxPlannerFileBytes, kMaxPlannerFileValues, kMaxPlannerFileDepth});
}

}  // namespace harmonics::inline in_plan
