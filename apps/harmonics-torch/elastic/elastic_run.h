// A run whose replicas are processes that may die and come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "elastic/replica_keeper.h"
#include "interrupt.h"
#include "part_children.h"
#include "train_progress.h"
#include "train_report.h"

namespace harmonics::inline in_torch_program {

/// How its replicas are started.
struct ElasticTerms {
  std::size_t replicas = 1;
  /// How often one that died is started again, all together.
  std::int64_t restarts = 0;
  std::string token;
  /// Where the state goes that one hands on to another.
  std::filesystem::path state_file;
  std::function<std::vector<std::string>(std::size_t replica)> arguments;
  std::function<std::vector<std::string>(std::size_t replica)> environment;
  ReplicaKeeper::ChoosePlaces choose_places;
  /// Tells the person at the terminal.
  std::function<void(const std::string&)> notice;
};

/// Owns the replicas, which die with it. One thread.
class ElasticRun {
 public:
  explicit ElasticRun(ElasticTerms terms);

  /// The report of a replica that came to the end, or why there is none.
  [[nodiscard]] std::variant<TrainReport, Failure> run(TrainProgress* progress,
                                                       const InterruptWatch& watch);

 private:
  void start(std::size_t replica);
  void listen(TrainProgress* progress);
  void hear(std::size_t replica, const std::string& line, TrainProgress* progress);
  /// Takes note of those who ended; why the run cannot go on, if it cannot.
  [[nodiscard]] std::optional<Failure> note_ends();
  [[nodiscard]] std::optional<Failure> lose(std::size_t replica, int status);
  void kill_laggards();
  [[nodiscard]] bool is_over() const;

  const ElasticTerms terms_;
  PartChildren children_;
  ReplicaKeeper keeper_;
  std::vector<std::optional<TrainReport>> reports_;
  std::vector<bool> gone_;  // ended, and noted
  std::int64_t restarts_ = 0;
  std::int64_t shown_step_ = 0;
  std::int64_t shown_epoch_ = 0;
  bool asked_to_end_ = false;
  std::optional<Deadline> gather_due_;
};

}  // namespace harmonics::inline in_torch_program
