// Ends that can be told to stop from another thread, and that count what they carried.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <harmonics/schedule/reduction.h>
#include <harmonics/transport/transport.h>

#include "harmonics_c.h"

namespace harmonics::border {

/// What an engine and the ends that it took over share. Every member may be called from any thread.
class EndWatch {
 public:
  /// Ends every wait on the ends, now and later, with an Error (kCancelled).
  void stop() noexcept { stopped_ = true; }
  [[nodiscard]] const std::atomic<bool>& stopped() const noexcept { return stopped_; }

  /// Counters of all ends so far, also of those that are gone, as JSON: how many ends there are of
  /// each kind ("bus", "shm", "tcp" …), what they sent and received, and how often a call of one
  /// was an Error (which tells a peer's failure from one of our own).
  [[nodiscard]] std::string traffic() const;

 private:
  friend class WatchedEnd;
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> kinds_;
  std::map<const Transport*, std::string> open_;
  TransportStats closed_ = {};
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> broken_ = 0;
};

/// An end whose waits look at the watch several times a second.
[[nodiscard]] TransportPtr watched(TransportPtr end, const std::string& kind,
                                   std::shared_ptr<EndWatch> watch);

/// The ends of one rank, which are taken over, also when one is missing.
[[nodiscard]] ReductionEnds reduction_ends(const hm_replicas& replicas,
                                           const std::shared_ptr<EndWatch>& watch);

}  // namespace harmonics::border
