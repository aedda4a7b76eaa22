// Which attempt of this worker has which devices, until nothing of it runs (private to worker).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "supervisor/run_record.h"

namespace harmonics::inline in_worker {

/// The worker's own guard against "twice at once": whatever the server believes, an attempt does
/// not start while others live here that leave it too little of one of its devices, or one that is
/// an earlier attempt of the same task. Pure; one thread.
class DeviceHolders {
 public:
  /// The attempt that must end before this one may start; empty: none.
  [[nodiscard]] std::string before(const RunRecord& run) const;
  void add(const RunRecord& run);
  void remove(const std::string& attempt);

 private:
  std::map<std::string, std::vector<std::string>> devices_;  ///< By attempt.
  /// By device and attempt, in units of kWholeDevice.
  std::map<std::string, std::map<std::string, std::uint32_t>> holders_;
};

}  // namespace harmonics::inline in_worker
