// For tests: ends of boundaries on this machine, and what they say to each other.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/base/log.h>
#include <harmonics/transport/transport.h>

#include <error_testing.h>

#include "frame/frame_testing.h"
#include "port_testing.h"

namespace harmonics::inline in_transport {

/// For what must come, and for what need not.
inline Deadline patient() { return deadline_in(std::chrono::minutes(4)); }
inline Deadline soon() { return deadline_in(std::chrono::milliseconds(50)); }

/// A boundary name that no other test process uses.
inline std::string unique_name(const std::string& stem) {
  static std::atomic<int> count = 0;
  return format("{}.{}.{}", stem, ::getpid(), count++);
}

inline RemoteBinding named(const std::string& name,
                           RemoteTransport transport = RemoteTransport::TCP) {
  RemoteBinding binding;
  binding.name = name;
  binding.transport = transport;
  return binding;
}

/// The listening end of a boundary on this machine, at a free port unless the binding has one.
inline TransportPtr listening_end(RemoteBinding binding, const TransportOptions& options = {}) {
  binding.host = "127.0.0.1";
  binding.listen = true;
  return make_transport(binding, options);
}

/// The end that connects to it.
inline TransportPtr connecting_end(const Transport& listening,
                                   const TransportOptions& options = {}) {
  RemoteBinding binding = listening.binding();
  binding.listen = false;
  return make_transport(binding, options);
}

/// Both ends of a boundary.
inline std::pair<TransportPtr, TransportPtr> local_pair(RemoteBinding binding,
                                                        const TransportOptions& options = {}) {
  TransportPtr first = listening_end(std::move(binding), options);
  TransportPtr second = connecting_end(*first, options);
  return {std::move(first), std::move(second)};
}

/// A message with one number.
inline Message one(float value = 1) {
  Message message;
  message.tensor = Tensor::of<float>({1}, {value});
  return message;
}

inline void expect_talk(Transport& a, Transport& b) {
  a.send(one(1), patient());
  b.send(one(2), patient());
  EXPECT_TRUE(same_message(b.receive(patient()).value(), one(1)));
  EXPECT_TRUE(same_message(a.receive(patient()).value(), one(2)));
}

inline std::string receive_error(Transport& end, Deadline deadline = patient()) {
  return error_of([&] { (void)end.receive(deadline); });
}

/// The error of a wait that is made again until it says `what`.
inline std::string error_with(Transport& end, const std::string& what) {
  std::string error;
  do {
    error = receive_error(end, soon());
  } while (error.find(what) == std::string::npos);
  return error;
}

/// An end that strangers visit; its log is captured.
class VisitedByStrangers : public ::testing::Test {
 protected:
  /// The rightful peer still gets through.
  void expect_alive() {
    const TransportPtr peer = connecting_end(*end_);
    peer->send(one(), patient());
    EXPECT_TRUE(same_message(end_->receive(patient()).value(), one()));
  }
  [[nodiscard]] std::uint16_t port() const { return end_->binding().port; }
  [[nodiscard]] std::string log() const {
    std::string out;
    for (const std::string& line : capture_.lines()) out += line + "\n";
    return out;
  }

  LogCapture capture_;
  TransportPtr end_;
};

/// A process that listens for `binding` (whose port is set), sends one() and waits. Make it while
/// this program has a single thread. It dies with the object, if not before.
class ListeningProcess {
 public:
  explicit ListeningProcess(const RemoteBinding& binding) : process_(::fork()) {
    if (process_ != 0) return;
    try {
      const TransportPtr end = listening_end(binding);
      end->send(one(), patient());
      (void)end->receive(patient());  // never comes
    } catch (const Error&) {
    }
    ::_exit(0);
  }
  ~ListeningProcess() { kill(); }
  ListeningProcess(const ListeningProcess&) = delete;
  ListeningProcess& operator=(const ListeningProcess&) = delete;

  /// Returns when it is dead.
  void kill() {
    if (process_ <= 0) return;
    (void)::kill(process_, SIGKILL);
    (void)::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_;
};

}  // namespace harmonics::inline in_transport
