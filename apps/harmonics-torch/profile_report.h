// What a profile ends with.
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/place/busy_processes.h>
#include <harmonics/place/profile_files.h>
#include <harmonics/place/profile_result.h>

namespace harmonics::inline in_torch_program {

struct ProfileReport {
  std::string graph;
  std::string model;
  MeasuredMachine machine;
  /// Where the bandwidth comes from, in words.
  std::string bandwidth_source;
  std::vector<GraphProfile> profiles;
  /// Others that computed meanwhile, and the cores that there are.
  std::vector<BusyProcess> busy = {};
  double cores = 1;
  ProfileFiles files;
};

[[nodiscard]] Json report_json(const ProfileReport& report);
/// A warning where passes waited for a core for more than kBusyShare of their time, or others kept
/// more than kBusyCoresShare of the cores busy: it names them. Else nothing.
[[nodiscard]] std::string busy_text(const ProfileReport& report);
[[nodiscard]] std::string report_text(const ProfileReport& report, bool colour);

}  // namespace harmonics::inline in_torch_program
