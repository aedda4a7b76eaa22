// The ranks of a reduction meet in whatever order their processes start: every order of starting,
// every reduction, every transport. The processes are kept and go through all cases.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <sstream>

#include <harmonics/schedule/reduction.h>

#include "remote/remote_testing.h"

extern char** environ;

namespace harmonics::inline in_schedule {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);
constexpr int kRankEnd = 3;  // the descriptor on which a rank is told what to do

/// Lines over one end of a socket pair.
class Lines {
 public:
  explicit Lines(int descriptor) : descriptor_(descriptor) {}

  void say(std::string line) const {
    line += '\n';
    ASSERT_EQ(::write(descriptor_, line.data(), line.size()), std::ssize(line));
  }
  /// Empty at the end, or when nothing came for longer than a meeting may take.
  std::string next() {
    for (;;) {
      if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      pollfd watched{descriptor_, POLLIN, 0};
      constexpr int kLonger = static_cast<int>(std::chrono::milliseconds(3 * kPatience).count());
      if (::poll(&watched, 1, kLonger) <= 0) return {};
      char chunk[4096];
      const ssize_t got = ::read(descriptor_, chunk, sizeof chunk);
      if (got <= 0) return {};
      text_.append(chunk, static_cast<std::size_t>(got));
    }
  }

 private:
  const int descriptor_;
  std::string text_;
};

/// This program once more, as one rank; killed at the end if it is still there.
class RankProcess {
 public:
  RankProcess() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno(errno, "pair");
    own_ = ends[0];
    lines_.emplace(own_);
    std::string words[] = {"rank", "--gtest_filter=ReductionMeeting.DISABLED_Rank",
                           "--gtest_also_run_disabled_tests"};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], kRankEnd);
    const int failed =
        ::posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed != 0) fail_errno(failed, "cannot start a rank");
  }
  ~RankProcess() {
    ::close(own_);
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  [[nodiscard]] Lines& lines() { return *lines_; }

 private:
  pid_t process_ = 0;
  int own_ = -1;
  std::optional<Lines> lines_;
};

NamedTensors values_of(std::size_t rank) {
  NamedTensors made;
  Random random(rank, "meeting");
  Tensor tensor = Tensor::empty({5, 9});
  for (float& value : tensor.mutable_values<float>()) value = random.normal();
  made.emplace("weight", tensor);
  return made;
}

// "REDUCTION RANK PLACE PLACE …" makes the rank's ends, "sum" sums; each is answered by a line.
TEST(ReductionMeeting, DISABLED_Rank) {
  Lines lines(kRankEnd);
  for (std::string line = lines.next(); !line.empty(); line = lines.next()) {
    std::istringstream words(line);
    std::string order, url;
    std::size_t rank = 0;
    words >> order >> rank;
    std::vector<RemoteBinding> places;
    while (words >> url) places.push_back(parse_binding(url));
    ReductionOptions options;
    options.order = reduction_from_name(order);
    options.first_contact = options.deadline = kPatience;
    try {
      Reducer reducer(make_remote_ends(options.order, rank, places, "meeting"), options);
      lines.say("made");
      ASSERT_EQ(lines.next(), "sum");
      const std::string digest = weights_digest(reducer.sum(values_of(rank), 0));
      lines.say(digest);
    } catch (const Error& error) {
      lines.say(format("error: {}", error.what()));
    }
    ASSERT_EQ(lines.next(), "next");
    lines.say("gone");
  }
}

class ReductionMeetingOver : public testing::TestWithParam<RemoteTransport> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "this build lacks the transport";
  }

  static std::string expected(Reduction order, std::size_t ranks) {
    std::vector<ReductionEnds> ends = make_bus_ends(order, ranks);
    std::vector<std::string> digests(ranks);
    std::vector<std::function<void()>> actions;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      actions.push_back([&, rank] {
        ReductionOptions options;
        options.order = order;
        Reducer reducer(std::move(ends[rank]), options);
        digests[rank] = weights_digest(reducer.sum(values_of(rank), 0));
      });
    }
    for (const std::string& error : at_the_same_time(actions)) EXPECT_EQ(error, "");
    return digests.front();
  }

  /// The ranks come one after the other, each once the one before has begun to listen or connect.
  void meet(std::vector<RankProcess>& processes, Reduction order,
            const std::vector<std::size_t>& starts) {
    std::string places;
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      places += ' ' + binding_url(RemoteBinding{"rank", "127.0.0.1", reserved_port(), GetParam()});
    }
    for (const std::size_t rank : starts) {
      processes[rank].lines().say(format("{} {}{}", reduction_name(order), rank, places));
      ASSERT_EQ(processes[rank].lines().next(), "made") << "rank " << rank;
    }
    for (RankProcess& process : processes) process.lines().say("sum");
    const std::string sum = expected(order, processes.size());
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      ASSERT_EQ(processes[rank].lines().next(), sum) << "rank " << rank;
    }
    for (RankProcess& process : processes) process.lines().say("next");
    for (RankProcess& process : processes) ASSERT_EQ(process.lines().next(), "gone");
  }

  void meet_in_every_order(std::size_t ranks) {
    std::vector<RankProcess> processes(ranks);
    for (const Reduction order : {Reduction::Chain, Reduction::Tree, Reduction::Ring}) {
      std::vector<std::size_t> starts(ranks);
      std::iota(starts.begin(), starts.end(), std::size_t{0});
      do {
        std::string text;
        for (const std::size_t rank : starts) text += format(" {}", rank);
        SCOPED_TRACE(format("{}, {} ranks, started as{}", reduction_name(order), ranks, text));
        meet(processes, order, starts);
        if (HasFatalFailure()) return;
      } while (std::ranges::next_permutation(starts).found);
    }
  }
};

TEST_P(ReductionMeetingOver, ThreeRanksInEveryOrder) { meet_in_every_order(3); }

TEST_P(ReductionMeetingOver, FourRanksInEveryOrder) {
  if (GetParam() != RemoteTransport::TCP) GTEST_SKIP() << "who listens is decided alike";
  meet_in_every_order(4);
}

INSTANTIATE_TEST_SUITE_P(Transports, ReductionMeetingOver,
                         testing::Values(RemoteTransport::TCP, RemoteTransport::GRPC,
                                         RemoteTransport::Flight, RemoteTransport::SharedMemory),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

// Two ranks on one host whose places are one: said at once, not after the first contact is over.
TEST(ReductionMeeting, APlaceThatAnotherRankHasTakenIsAnErrorAtOnce) {
  const RemoteBinding place{"rank", "127.0.0.1", reserved_port()};
  const ReductionEnds first = make_remote_ends(Reduction::Chain, 0, {place, place}, "meeting");
  try {
    static_cast<void>(make_remote_ends(Reduction::Chain, 0, {place, place}, "meeting"));
    FAIL() << "the place is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAlreadyExists);
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
