// PipedCompany: the company of a replica whose keeper started it, and talks to it through pipes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/stop.h>
#include <harmonics/schedule/replica_company.h>
#include <harmonics/transport/transport.h>

#include "elastic/replica_keeper.h"
#include "stage_events.h"

namespace harmonics::inline in_torch_program {

/// Set in the environment of a child: the descriptor that it reads orders from.
inline constexpr const char* kOrdersVariable = "HARMONICS_STAGE_ORDERS";

/// True in a child whose replicas are kept.
[[nodiscard]] bool has_keeper();

/// How a replica meets others.
struct CompanyTerms {
  std::size_t number = 0;
  std::size_t replicas = 1;
  Reduction order = Reduction::Chain;
  /// Of the reduction.
  std::string name;
  TransportOptions transport = {};
};

/// A keeper that is gone, or says nothing for long, is an Error.
class PipedCompany final : public ReplicaCompany {
 public:
  /// `events` must outlive it.
  PipedCompany(CompanyTerms terms, StageEvents& events);
  ~PipedCompany() override;

  /// Before anything else: stands at so many steps and waits for the first group. The file with the
  /// state to begin with; empty: as it is.
  [[nodiscard]] std::filesystem::path introduce(std::uint64_t steps);

  [[nodiscard]] std::size_t replicas() const override { return terms_.replicas; }
  [[nodiscard]] std::size_t number() const override { return terms_.number; }
  [[nodiscard]] ReplicaGroup regroup(
      const ReplicaStanding& standing,
      const std::function<void(const std::filesystem::path&)>& hand_on) override;
  [[nodiscard]] bool newcomer_waits() const override;

 private:
  void read_orders();
  void read_until_gone();
  void take(KeeperOrder order);
  [[nodiscard]] KeeperOrder next_order();
  [[nodiscard]] KeeperOrder await_group(
      const ReplicaStanding& standing,
      const std::function<void(const std::filesystem::path&)>& hand_on);
  [[nodiscard]] ReplicaGroup group_of(const KeeperOrder& order);

  const CompanyTerms terms_;
  StageEvents& events_;
  int orders_ = -1;
  Descriptor wake_;  // written to when the reader has to end
  Descriptor woken_;
  std::optional<KeeperOrder> first_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<KeeperOrder> waiting_;
  bool keeper_is_gone_ = false;
  std::uint64_t generation_ = 0;           // of the group that this one is in
  std::uint64_t broken_generation_ = 0;    // the last that was told to regroup
  std::uint64_t newcomer_generation_ = 0;  // the last that was told of a newcomer
  StopRequestPtr stop_;                    // of the waits of its group
  std::thread reader_;
};

}  // namespace harmonics::inline in_torch_program
