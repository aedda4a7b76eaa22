// A cable of a given rate between two machines that this one pretends to be: two network namespaces
// and a queue (tc tbf) at both ends. Needs the right to make them (root).
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

namespace bench {

/// Laid when made and taken away with the object. Sides are 0 and 1.
class Cable {
 public:
  explicit Cable(double megabits) {
    const auto rate = static_cast<long long>(megabits * 1000);
    const std::string first = space(0), second = space(1);
    is_laid_ =
        run(harmonics::format("ip netns add {}", first)) &&
        run(harmonics::format("ip netns add {}", second)) &&
        run(harmonics::format("ip link add {0}a netns {1} type veth peer name {0}b netns {2}",
                              mark(), first, second));
    for (const int side : {0, 1}) {
      const std::string end = mark() + (side == 0 ? "a" : "b");
      is_laid_ = is_laid_ &&
                 run(harmonics::format("ip -n {} address add {}/24 dev {}", space(side),
                                       address(side), end)) &&
                 run(harmonics::format("ip -n {} link set {} up", space(side), end)) &&
                 run(harmonics::format("ip -n {} link set lo up", space(side))) &&
                 run(harmonics::format(
                     "tc -n {} qdisc add dev {} root tbf rate {}kbit burst 64kb latency 100ms",
                     space(side), end, rate));
    }
  }
  ~Cable() {
    for (const int side : {0, 1}) {
      static_cast<void>(run(harmonics::format("ip netns del {}", space(side))));
    }
  }
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  [[nodiscard]] bool is_laid() const { return is_laid_; }
  [[nodiscard]] static std::string address(int side) {
    return harmonics::format("10.231.79.{}", side + 1);
  }
  /// The calling thread, and those that it starts, are on that side from now on.
  void enter(int side) const {
    const std::string path = "/run/netns/" + space(side);
    const harmonics::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::setns(file.get(), CLONE_NEWNET) != 0) {
      harmonics::fail_errno(errno, harmonics::format("cannot enter '{}'", path));
    }
  }

 private:
  [[nodiscard]] static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  [[nodiscard]] static std::string mark() { return harmonics::format("hb{}", ::getpid() % 100000); }
  [[nodiscard]] static std::string space(int side) {
    return harmonics::format("harmonics-bench-{}-{}", ::getpid(), side);
  }

  bool is_laid_ = false;
};

}  // namespace bench
