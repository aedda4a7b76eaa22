// ReplicaKeeper: decides who of a run's replicas goes on with whom, when they come and go.
//
// Pure: it is told what happened and says what to tell whom. All replicas that live say where they
// stand before a group is made, so that nobody is in two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/schedule/replica_company.h>

namespace harmonics::inline in_torch_program {

/// What a replica is told.
struct KeeperOrder {
  enum class Kind {
    /// Break off the step and say where you stand.
    kRegroup,
    /// One that came back waits: stand still before the next step.
    kNewcomer,
    /// Write your state to `file`, and say so.
    kSave,
    /// Go on with `members`, who meet at `places`. `file`: begin with the state there.
    kGroup,
  };
  Kind kind = Kind::kRegroup;
  std::uint64_t generation = 0;
  std::vector<std::size_t> members = {};
  std::vector<std::string> places = {};
  std::string shares = {};
  bool take_over = false;
  std::filesystem::path file = {};
};

[[nodiscard]] std::string encode_order(const KeeperOrder& order);
/// Text that is no order is an Error.
[[nodiscard]] KeeperOrder decode_order(const std::string& line);

/// What a replica says to its keeper.
struct KeeperNews {
  enum class Kind { kStands, kSaved };
  Kind kind = Kind::kStands;
  ReplicaStanding standing = {};
};

[[nodiscard]] std::string encode_news(const KeeperNews& news);
/// Nothing for an event of another kind.
[[nodiscard]] std::optional<KeeperNews> decode_news(const std::string& line);

/// One thread.
class ReplicaKeeper {
 public:
  struct Addressed {
    std::size_t replica = 0;
    KeeperOrder order;
  };
  /// Fresh places for so many ranks to meet at.
  using ChoosePlaces = std::function<std::vector<std::string>(std::size_t ranks)>;

  /// State is handed on in `state_file`.
  ReplicaKeeper(std::size_t replicas, std::filesystem::path state_file, ChoosePlaces places);

  // What happened. A replica that was started has to stand before it takes part.
  void started(std::size_t replica);
  void ended(std::size_t replica);
  /// It came to the end of the run.
  void done(std::size_t replica, std::uint64_t steps);
  void heard(std::size_t replica, const KeeperNews& news);

  /// What to tell whom now; what was told before is not told again.
  [[nodiscard]] std::vector<Addressed> orders();
  /// True when nobody is left who knows where the run was.
  [[nodiscard]] bool has_lost_all() const;
  /// True while somebody waits for somebody else to stand.
  [[nodiscard]] bool waits_for_standing() const;
  /// Those who still compute while others wait for them.
  [[nodiscard]] std::vector<std::size_t> laggards() const;
  /// True while the run is not over for this one, which was in a group or in time for the first.
  [[nodiscard]] bool takes_part(std::size_t replica) const;

 private:
  enum class State { kAbsent, kStarting, kComputing, kStanding, kDone };
  struct Replica {
    State state = State::kAbsent;
    bool belongs = false;  // to the last group, or has come to it since
    ReplicaStanding standing = {};
    std::uint64_t told_to_regroup = 0;  // in which generation
    bool told_of_newcomer = false;
  };

  [[nodiscard]] bool lives(const Replica& replica) const;
  [[nodiscard]] std::vector<std::size_t> survivors() const;
  [[nodiscard]] std::vector<std::size_t> newcomers() const;
  void call_together(std::vector<Addressed>& orders);
  void make_group(std::vector<Addressed>& orders);
  void form(const std::vector<std::size_t>& members, const std::vector<std::size_t>& loaders,
            std::uint64_t steps, std::vector<Addressed>& orders);
  [[nodiscard]] std::uint64_t newest_steps() const;

  std::vector<Replica> replicas_;
  const std::filesystem::path state_file_;
  const ChoosePlaces choose_places_;
  std::uint64_t generation_ = 0;
  bool lost_one_ = false;  // since the last group
  std::uint64_t done_steps_ = 0;
  std::optional<std::size_t> saving_;  // whose state is awaited
  bool saved_ = false;
};

}  // namespace harmonics::inline in_torch_program
