// The processes of a training run on one machine: which there are, where they meet, and the words
// that each of them is started with.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>

#include "inference/stage_copies.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {

/// Numbered replica by replica, in each of them part by part, and copy by copy where a plan gives a
/// part to hosts that take turns. One thread.
class RunSeats {
 public:
  /// The job must outlive it. All processes save to `checkpoint` and go on from there. Boundary
  /// bits of boundaries that are not there are an Error.
  RunSeats(const TrainingJob& job, std::filesystem::path checkpoint);

  [[nodiscard]] std::size_t count() const { return seats_.size() * replicas_; }
  [[nodiscard]] std::size_t replicas() const { return replicas_; }
  [[nodiscard]] const std::vector<HarmonicGraph>& parts() const { return parts_; }
  /// The one whose events are shown: with the last tap, in the first replica.
  [[nodiscard]] std::size_t teller() const { return teller_; }
  /// "part 1 of 3", with replica or host where there are several.
  [[nodiscard]] std::string who(std::size_t child) const;

  /// Fresh meeting places, on this machine, and a fresh name for the run.
  void choose_places();
  /// The same where whoever keeps the replicas chooses places.
  void choose_no_places();
  [[nodiscard]] std::vector<std::string> arguments(std::size_t child, bool resume) const;
  [[nodiscard]] std::vector<std::string> environment(std::size_t child) const;

 private:
  [[nodiscard]] const Seat& seat_of_child(std::size_t child) const {
    return seats_[child % seats_.size()];
  }
  [[nodiscard]] PartCopies copies_of_seat(const Seat& seat) const;
  void add_meetings(std::vector<std::string>& words, std::size_t child) const;

  const TrainingJob& job_;
  const std::filesystem::path checkpoint_;
  const std::vector<HarmonicGraph> parts_;
  const std::vector<Seat> seats_;  // of one replica
  const std::size_t replicas_;
  std::size_t teller_ = 0;
  std::string run_;
  std::vector<std::map<std::string, std::string, std::less<>>> places_;  // by replica: URL by name
  std::vector<std::vector<std::string>> replica_places_;  // by part: URL of each replica
};

}  // namespace harmonics::inline in_torch_program
