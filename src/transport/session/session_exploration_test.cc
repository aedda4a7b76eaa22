// Every interleaving of two sessions and the connection between them, up to six messages and three
// cuts: nothing is lost, nothing doubled, the order is kept, credits are never exceeded, and from
// every state there is a way on until both ends have left, each knowing that the other has
// everything or that the other has left.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/custody/digest.h>

#include "session.h"

namespace harmonics::inline in_transport {
namespace {

// What travels: a message, an end, or progress alone; each carries progress.
struct Wire {
  Sequence sequence = 0;  // 0: progress alone
  bool end = false;
  bool ask = false;
  bool leave = false;
  Progress progress;
};

struct Scenario {
  Window window;
  std::array<int, 2> messages;  // sent by either end
  int cuts = 0;
};

// Message sizes vary, so that byte credits bind differently from message credits.
std::uint64_t size_of(Sequence sequence) { return sequence % 3 == 0 ? 3 : 1; }

struct World {
  explicit World(const Scenario& scenario)
      : ends{Session(scenario.window), Session(scenario.window)}, cuts_left(scenario.cuts) {}

  std::array<Session, 2> ends;
  std::array<std::deque<Wire>, 2> wires;  // wires[i] leads away from end i
  std::array<Sequence, 2> taken{};        // how many the program at end i received
  std::array<bool, 2> left{};             // whether end i has gone
  int cuts_left;
  // A new connection is being made: end 0 has left the old one and knows end 1's progress of then;
  // end 1 goes on reading the old connection until it takes the new one over.
  bool greeting = false;
  Progress snapshot;

  /// Worlds with the same digest are the same, but for a chance of one in 2^64 or so.
  [[nodiscard]] Digest digest() const {
    ByteWriter out;
    for (const Session& end : ends) end.write_state(out);
    for (const std::deque<Wire>& wire : wires) {
      out.number(wire.size());
      for (const Wire& one : wire) {
        for (const bool flag : {one.end, one.ask, one.leave}) out.number(flag);
        for (const Sequence number :
             {one.sequence, one.progress.delivered, one.progress.consumed}) {
          out.number(number);
        }
      }
    }
    for (const Sequence count : taken) out.number(count);
    for (const bool gone : left) out.number(gone);
    out.number(cuts_left);
    out.number(greeting);
    out.number(snapshot.delivered);
    out.number(snapshot.consumed);
    return sha256(out.bytes());
  }
};

class Exploration {
 public:
  explicit Exploration(const Scenario& scenario) : scenario_(scenario) {}

  void run() {
    World start(scenario_);
    connect(start);
    visit(start);
    while (!open_.empty() && !::testing::Test::HasFatalFailure()) {
      const World world = std::move(open_.back());
      open_.pop_back();
      expand(world);
    }
    EXPECT_GT(finished_, 0u);
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  static void connect(World& world) {
    const Progress of_0 = world.ends[0].progress();
    const Progress of_1 = world.ends[1].progress();
    world.ends[0].resume(of_1, world.ends[1].granted(), of_0);
    world.ends[1].resume(of_0, world.ends[0].granted(), of_1);
  }

  void visit(const World& world) {
    if (seen_.insert(world.digest()).second) open_.push_back(world);
  }

  [[nodiscard]] bool done(const World& world) const {
    for (int i = 0; i < 2; ++i) {
      if (world.taken[1 - i] != static_cast<Sequence>(scenario_.messages[i])) return false;
    }
    return world.left[0] && world.left[1];
  }

  void expand(const World& world) {
    ways_ = 0;
    for (int i = 0; i < 2; ++i) {
      if (!world.left[1 - i]) deliver(world, i);
      if (world.left[i]) continue;
      push(world, i);
      write(world, i);
      report(world, i);
      consume(world, i);
      leave(world, i);
    }
    cut(world);
    take_over(world);
    if (done(world)) {
      ++finished_;
    } else {
      ASSERT_GT(ways_, 0) << "stuck before the end";
    }
  }

  void step(const World& next) {
    ++ways_;
    visit(next);
  }

  void push(const World& world, int i) {
    const Session& end = world.ends[i];
    World next = world;
    if (static_cast<int>(end.pushed()) < scenario_.messages[i]) {
      const std::uint64_t bytes = size_of(end.pushed() + 1);
      if (end.may_push(bytes)) {
        (void)next.ends[i].push(bytes);
        check_credits(next, i);
        step(next);
      } else if (end.must_ask(bytes) && !world.greeting) {
        next.ends[i].asked();
        next.wires[i].push_back({0, false, true, false, tell(next, i)});
        step(next);
      }
    } else if (static_cast<int>(end.pushed()) == scenario_.messages[i]) {
      (void)next.ends[i].push_end();
      step(next);
    }
  }

  void check_credits(const World& world, int i) {
    const Session& end = world.ends[i];
    ASSERT_LE(end.in_flight_messages(), scenario_.window.messages);
    ASSERT_TRUE(end.in_flight_bytes() <= scenario_.window.bytes || end.in_flight_messages() == 1);
  }

  static Progress tell(World& world, int i) {
    world.ends[i].told_progress();
    return world.ends[i].progress();
  }

  // While the connection is being made anew, end 1 may still write to the old one; nobody reads it.
  void write(const World& world, int i) {
    const auto sequence = world.ends[i].next_to_write();
    if (!sequence) return;
    World next = world;
    next.ends[i].written(*sequence);
    const bool end = static_cast<int>(*sequence) > scenario_.messages[i];
    next.wires[i].push_back({*sequence, end, false, false, tell(next, i)});
    if (i == 1 && world.greeting) next.wires[i].clear();
    step(next);
  }

  void report(const World& world, int i) {
    if (!world.ends[i].linked() || !world.ends[i].owes_progress()) return;
    World next = world;
    next.wires[i].push_back({0, false, false, false, tell(next, i)});
    if (i == 1 && world.greeting) next.wires[i].clear();
    step(next);
  }

  void deliver(const World& world, int i) {
    if (world.wires[i].empty() || !world.ends[1 - i].linked()) return;
    World next = world;
    const Wire wire = next.wires[i].front();
    next.wires[i].pop_front();
    Session& to = next.ends[1 - i];
    try {
      to.peer_progress(wire.progress);
      if (wire.ask) to.peer_asks();
      if (wire.leave) to.peer_leaves();
      if (wire.sequence != 0) {
        const Sequence expected = to.progress().delivered + 1;
        const Session::Arrival arrival = wire.end
                                             ? to.arrive_end(wire.sequence)
                                             : to.arrive(wire.sequence, size_of(wire.sequence));
        ASSERT_EQ(arrival == Session::Arrival::kNew, wire.sequence == expected);
      }
    } catch (const Error& error) {
      FAIL() << error.what();
    }
    ASSERT_LE(to.progress().delivered - to.progress().consumed, scenario_.window.messages + 1);
    step(next);
  }

  void consume(const World& world, int i) {
    const Progress progress = world.ends[i].progress();
    const bool only_end_left =
        world.ends[i].peer_ended() && world.taken[i] + 1 == progress.delivered;
    if (world.taken[i] >= progress.delivered || only_end_left) return;
    World next = world;
    next.ends[i].consume();
    ++next.taken[i];
    step(next);
  }

  // An end whose program has taken everything goes once it knows that the other one has all, or has
  // gone. One that has the other's end and no connection waits for the other to come back; the
  // transport ends that wait by time, here it ends when the other one is gone indeed.
  void leave(const World& world, int i) {
    const Session& end = world.ends[i];
    if (static_cast<int>(world.taken[i]) != scenario_.messages[1 - i]) return;
    const bool waits_in_vain = end.peer_ended() && world.greeting && world.left[1 - i];
    if (!end.may_leave() && !end.peer_left() && !waits_in_vain) return;
    ASSERT_TRUE(world.left[1 - i] || world.ends[1 - i].peer_ended());
    World next = world;
    next.left[i] = true;
    if (end.linked() && !world.greeting) {
      next.wires[i].push_back({0, false, false, true, tell(next, i)});
    }
    step(next);
  }

  void cut(const World& world) {
    if (world.cuts_left == 0 || world.greeting) return;
    World next = world;
    --next.cuts_left;
    next.ends[0].cut();
    next.wires[1].clear();
    next.snapshot = next.ends[1].progress();
    next.greeting = true;
    step(next);
    // What was under way towards end 1 may be lost from any point on.
    while (!next.wires[0].empty()) {
      next.wires[0].pop_back();
      visit(next);
    }
  }

  void take_over(const World& world) {
    if (!world.greeting || world.left[0] || world.left[1]) return;
    World next = world;
    next.wires = {};
    next.ends[1].cut();
    const Progress of_0 = next.ends[0].progress();
    try {
      next.ends[0].resume(next.snapshot, next.ends[1].granted(), of_0);
      next.ends[1].resume(of_0, next.ends[0].granted(), next.snapshot);
    } catch (const Error& error) {
      FAIL() << error.what();
    }
    next.greeting = false;
    next.snapshot = {};
    step(next);
  }

  const Scenario scenario_;
  std::set<Digest> seen_;
  std::vector<World> open_;
  std::size_t finished_ = 0;
  int ways_ = 0;
};

void explore(const Scenario& scenario, std::size_t at_least) {
  Exploration exploration(scenario);
  exploration.run();
  EXPECT_GT(exploration.states(), at_least);
}

TEST(SessionExploration, SixMessagesThreeCutsMessageCreditsBind) {
  explore({{100, 2}, {6, 0}, 3}, 1000);
}
TEST(SessionExploration, SixMessagesThreeCutsByteCreditsBind) {
  explore({{3, 8}, {6, 0}, 3}, 1000);
}
TEST(SessionExploration, BothWaysTwoAndOneMessagesTwoCuts) {
  explore({{3, 2}, {2, 1}, 2}, 100'000);
}
TEST(SessionExploration, OneCreditThreeCuts) { explore({{1, 1}, {6, 0}, 3}, 1000); }

}  // namespace
}  // namespace harmonics::inline in_transport
