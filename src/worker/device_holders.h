// Which attempt of this worker has which devices, until nothing of it runs (private to worker).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "supervisor/run_record.h"

namespace harmonics::inline in_worker {

/// The worker's own guard against "twice at once": whatever the server believes, an attempt does
/// not start while another one lives here that has one of its devices, or that is an earlier
/// attempt of the same task. Pure; one thread.
class DeviceHolders {
 public:
  /// The attempt that must end before this one may start; empty: none.
  [[nodiscard]] std::string before(const RunRecord& run) const;
  void add(const RunRecord& run);
  void remove(const std::string& attempt);

 private:
  std::map<std::string, std::vector<std::string>> devices_;  ///< By attempt.
  std::map<std::string, std::string> holders_;               ///< By device.
};

}  // namespace harmonics::inline in_worker
