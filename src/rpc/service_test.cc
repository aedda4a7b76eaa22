#include <harmonics/rpc/service.h>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/worker_line.h>

#include "server_speech.h"

namespace harmonics::inline in_rpc {
namespace {

using std::chrono::seconds;

/// Knows one token, answers every question with an empty list of workers, and counts.
class Backend final : public ClusterBackend {
 public:
  void ask(ClientRequest, std::function<void(ClientReply)> reply) override {
    reply(std::vector<WorkerView>{});
  }
  void hello(RequestId, std::shared_ptr<SessionLine> line, HelloMessage, std::string) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  void says(RequestId, std::vector<WorkerMessage>, std::vector<ProgressLine>) override {}
  void gone(RequestId) override {
    const std::lock_guard lock(mutex_);
    ++gone_;
    changed_.notify_all();
  }
  std::optional<Identity> identify(std::string_view token) override {
    if (token != "good") return std::nullopt;
    return Identity{"ann", true, true, true, true};
  }
  std::optional<std::string> refuse_rate(const std::string&) override { return std::nullopt; }

  void await_hellos(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, seconds(60), [&] { return lines_.size() >= count; }));
  }
  void await_gone(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, seconds(60), [&] { return gone_ >= count; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<SessionLine>> lines_;
  std::size_t gone_ = 0;
};

class Worker {
 public:
  explicit Worker(const ClusterService& service)
      : line_({.server = "127.0.0.1:" + std::to_string(service.port()), .token = "good", .tls = {}},
              "log", [this](LineEvent event) { hear(std::move(event)); }) {
    HelloMessage hello;
    hello.spec.name = "w";
    hello.spec.identity = "identity";
    line_.send(hello);
  }
  LineClosed closed() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, seconds(60), [&] { return closed_.has_value(); }));
    return closed_.value_or(LineClosed{});
  }

 private:
  void hear(LineEvent event) {
    const std::lock_guard lock(mutex_);
    if (const auto* closed = std::get_if<LineClosed>(&event)) closed_ = *closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<LineClosed> closed_;
  WorkerLine line_;
};

TEST(Service, WorkersLeaveDescriptorsToClients) {
  const LogCapture log;
  Backend backend;
  const ClusterService service({.address = "127.0.0.1:0", .tls = {}, .max_sessions = 2}, backend);
  auto first = std::make_unique<Worker>(service);
  const Worker second(service);
  backend.await_hellos(2);
  Worker third(service);
  const LineClosed closed = third.closed();
  EXPECT_FALSE(closed.refused) << "it may try again";
  EXPECT_NE(closed.reason.find("2 workers are connected"), std::string::npos) << closed.reason;
  ClusterClient client(
      {.server = "127.0.0.1:" + std::to_string(service.port()), .token = "good", .tls = {}});
  EXPECT_TRUE(client.workers().empty()) << "a client gets in";
  first.reset();
  backend.await_gone(1);
  const Worker fourth(service);
  backend.await_hellos(3);
  bool said = false;
  for (const std::string& line : log.lines()) said |= line.find("LimitNOFILE") != line.npos;
  EXPECT_TRUE(said);
}

TEST(Service, ATakenAddressIsAnError) {
  Backend backend;
  const ClusterService service({.address = "127.0.0.1:0", .tls = {}}, backend);
  const std::string address = "127.0.0.1:" + std::to_string(service.port());
  EXPECT_THROW(ClusterService({.address = address, .tls = {}}, backend), Error);
}

TEST(Service, WhatIsSpokenIsHeard) {
  Backend backend;
  auto service = std::make_unique<ClusterService>(
      ServiceOptions{.address = "127.0.0.1:0", .tls = {}}, backend);
  const std::string address = "127.0.0.1:" + std::to_string(service->port());
  EXPECT_EQ(speech_of(address, seconds(10)), Speech::kPlain);
  service.reset();
  EXPECT_EQ(speech_of(address, seconds(10)), Speech::kNothing);
  EXPECT_EQ(speech_of("nowhere.invalid:1", seconds(10)), Speech::kNothing);
}

}  // namespace
}  // namespace harmonics::inline in_rpc
