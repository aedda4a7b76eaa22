// PartGroup: the parts of a graph that this process runs (private to schedule).
//
// DistributedScheduler and RemoteScheduler are faces of it: all parts here, some, or one.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/schedule/part_copies.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/remote_scheduler.h>
#include <harmonics/schedule/replica_company.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/schedule/trainer.h>

#include "remote/peers.h"
#include "remote/remote_agreement.h"

namespace harmonics::inline in_schedule {

/// Owns the parts, their data and their boundaries to other processes. Nothing waits for another
/// process until the first step. An Error after that ends the run for all processes; then the group
/// only lets its weights be read and saved. One thread at a time.
class PartGroup {
 public:
  /// A deployment that does not fit is an Error. Boundaries of a part with a target are bound to
  /// it, unless they are bound otherwise before the first step.
  PartGroup(std::vector<HarmonicGraph> parts, const DeploymentDescriptor& deploy,
            const RemoteOptions& options);
  /// Ends a secure run, unless it failed.
  ~PartGroup();
  PartGroup(const PartGroup&) = delete;
  PartGroup& operator=(const PartGroup&) = delete;

  // A name that no part has, that joins two parts here, or that is bound already is an Error.
  void bind_producer(const std::string& name, ProducerPtr producer);
  void bind_consumer(const std::string& name, ConsumerPtr consumer);
  void bind_producer(const RemoteBinding& binding);
  void bind_consumer(const RemoteBinding& binding);
  void bind_producer(const std::string& boundary, TransportPtr end);
  void bind_consumer(const std::string& boundary, TransportPtr end);

  /// See DistributedScheduler.
  void join_replicas(ReductionEnds ends, const ReductionOptions& reduction);
  void join_company(std::unique_ptr<ReplicaCompany> company, const ReductionOptions& reduction);

  [[nodiscard]] std::string proof() const;

  [[nodiscard]] const std::vector<HarmonicGraph>& parts() const { return parts_; }
  /// True when every boundary has both of its ends here.
  [[nodiscard]] bool is_whole() const;
  /// Everything built, once all boundaries are bound; one that is not is an Error that names it.
  [[nodiscard]] Trainer& ready();
  [[nodiscard]] bool is_secure() const { return key_.has_value(); }
  /// What meets the parts in other processes; null when all are here.
  [[nodiscard]] RemoteAgreement* others() const { return others_; }
  /// How long the parts have waited for those in other processes.
  [[nodiscard]] Nanoseconds waited() const {
    return others_ == nullptr ? Nanoseconds(0) : others_->waited();
  }

 private:
  struct Names {
    std::string_view kind;
    std::vector<std::string> all;  // that may be bound
    std::set<std::string> bound;
  };
  void check_copies() const;
  void claim(Names& names, const std::string& name) const;
  void check_may_join() const;
  void check_not_started(const std::string& name) const;
  void note_bits(const std::string& channel, const RemoteBinding& binding);
  void check_packing() const;
  [[nodiscard]] BoundaryBits told_bits(const std::string& boundary) const;
  void bind_targets();
  // What a producer or consumer is bound by: itself, or the channels of a boundary.
  [[nodiscard]] std::vector<std::string> names_of(const ProducerNode& node) const;
  [[nodiscard]] std::vector<std::string> names_of(const ConsumerNode& node) const;
  [[nodiscard]] std::vector<std::string> link_names() const;
  [[nodiscard]] bool is_link(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> open_boundaries() const;
  [[nodiscard]] std::vector<PartRecord> records() const;
  void build_row();
  void choose_runner();
  [[nodiscard]] std::string title() const;

  const std::vector<HarmonicGraph> parts_;
  RemoteOptions options_;  // boundaries that are bound add their bits
  const std::vector<RuntimeOptions> part_runtimes_;
  std::optional<SigningKey> key_;     // of a secure run
  std::vector<std::string> targets_;  // by part
  std::unique_ptr<Peers> peers_;
  OpenBoundaries open_;
  Names producer_names_{"producer", {}, {}};
  Names consumer_names_{"consumer", {}, {}};
  NamedProducers producers_;
  std::map<std::string, ConsumerPtr, std::less<>> consumers_;
  std::optional<StageRow> row_;
  std::optional<Trainer> trainer_;
  bool is_replica_ = false;
  RemoteAgreement* others_ = nullptr;  // owned by the row; null when all parts are here
};

}  // namespace harmonics::inline in_schedule
