// Settings of engines and ends, from JSON.
#pragma once

#include <string_view>

#include <harmonics/graph/deployment.h>
#include <harmonics/schedule/remote_scheduler.h>

namespace harmonics::border {

/// What hm_*_new can be told. `remote.runtime` and `remote.pipeline` serve the other engines too.
struct EngineSettings {
  RemoteOptions remote;
  DeploymentDescriptor deploy;
  /// Also part of `remote.runtime`.
  SecureOptions secure;
};

/// Reads the JSON of hm_runtime_new and its kin; empty text is all defaults. An unknown key or a
/// wrong value is an Error that says which.
[[nodiscard]] EngineSettings engine_settings(std::string_view json);

}  // namespace harmonics::border
