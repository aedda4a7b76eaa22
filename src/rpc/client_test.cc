// A client whose calls are many, are interrupted, or find nobody.
#include <harmonics/rpc/client.h>

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include <harmonics/base/error.h>
#include <harmonics/rpc/service.h>

namespace harmonics::inline in_rpc {
namespace {

using std::chrono::milliseconds;

/// Takes submits but those that are called "refused", and leaves "unanswered" ones and waits open.
class Backend final : public ClusterBackend {
 public:
  ~Backend() override { release(); }

  void ask(ClientRequest request, std::function<void(ClientReply)> reply) override {
    const SubmitRequest* submit = std::get_if<SubmitRequest>(&request);
    if (submit == nullptr || submit->spec.name == "unanswered") {
      const std::lock_guard lock(mutex_);
      open_.push_back(std::move(reply));
    } else if (submit->spec.name == "refused") {
      reply(Refusal{ErrorCode::kResourceExhausted, "the queue is full"});
    } else {
      reply(Submitted{TaskId{++taken_}, 1, false, {}});
    }
  }
  void hello(RequestId, std::shared_ptr<SessionLine>, HelloMessage, std::string) override {}
  void says(RequestId, std::vector<WorkerMessage>, std::vector<ProgressLine>) override {}
  void gone(RequestId) override {}
  std::optional<Identity> identify(std::string_view) override {
    return Identity{"ann", true, true, true, true};
  }
  std::optional<std::string> refuse_rate(const std::string&) override { return std::nullopt; }

  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// A call that nobody waits for any more is answered all the same, before its server ends.
  void release() {
    const std::lock_guard lock(mutex_);
    for (const auto& reply : open_) reply(Refusal{ErrorCode::kUnavailable, "the server stops"});
    open_.clear();
  }

 private:
  std::atomic<std::uint64_t> taken_ = 0;
  std::mutex mutex_;
  std::vector<std::function<void(ClientReply)>> open_;
};

class Clients : public testing::Test {
 protected:
  Clients() : service_({.address = "127.0.0.1:0", .tls = {}}, backend_) {}
  ~Clients() override { backend_.release(); }

  ClientOptions options() const {
    return {.server = "127.0.0.1:" + std::to_string(service_.port()), .token = "good", .tls = {}};
  }
  static std::vector<TaskSpec> named(const std::string& name, std::size_t count) {
    TaskSpec spec;
    spec.name = name;
    return std::vector<TaskSpec>(count, spec);
  }
  template <typename Work>
  static std::string said(ErrorCode code, Work work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  Backend backend_;
  ClusterService service_;
};

TEST_F(Clients, EachOfManySubmitsHasItsOutcome) {
  constexpr std::size_t kCount = 1000;  // more than are under way at once
  std::vector<TaskSpec> specs = named("good", kCount);
  for (std::size_t at = 0; at < kCount; at += 7) specs[at].name = "refused";
  ClusterClient client(options());
  const auto outcomes = client.submit_all(specs);
  ASSERT_EQ(outcomes.size(), kCount);
  std::vector<bool> seen(kCount + 1);
  std::uint64_t good = 0;
  for (std::size_t at = 0; at < kCount; ++at) {
    const SubmitOutcome& one = outcomes[at];
    if (at % 7 == 0) {
      ASSERT_TRUE(one.error);
      EXPECT_EQ(one.error->code(), ErrorCode::kResourceExhausted);
      continue;
    }
    ASSERT_FALSE(one.error) << one.error->what();
    EXPECT_FALSE(seen.at(one.submitted.first.value)) << "one id for two tasks";
    seen[one.submitted.first.value] = true;
    ++good;
  }
  EXPECT_EQ(good, backend_.taken());
}

TEST_F(Clients, WhoeverWaitsCanLeave) {
  std::atomic<int> asked = 0;
  ClientOptions leaving = options();
  leaving.interrupted = [&] { return ++asked > 2; };
  ClusterClient client(leaving);
  said(ErrorCode::kCancelled, [&] { static_cast<void>(client.wait({1}, std::chrono::hours(1))); });
  EXPECT_GT(asked, 2);
  asked = 0;
  said(ErrorCode::kCancelled, [&] { client.submit(named("unanswered", 1).front()); });
  asked = 0;
  OutputQuery query;
  query.follow = true;
  said(ErrorCode::kCancelled,
       [&] { client.read_log(query, [](const OutputPiece&) { return true; }); });
}

TEST_F(Clients, WhatWasTakenBeforeAnInterruptIsTold) {
  std::vector<TaskSpec> specs = named("good", 100);
  for (const TaskSpec& one : named("unanswered", 200)) specs.push_back(one);
  ClientOptions leaving = options();
  leaving.interrupted = [&] { return backend_.taken() == 100; };
  ClusterClient client(leaving);
  const auto outcomes = client.submit_all(specs);
  std::uint64_t good = 0;
  for (const SubmitOutcome& one : outcomes) {
    if (!one.error) {
      ++good;
    } else {
      EXPECT_EQ(one.error->code(), ErrorCode::kCancelled) << one.error->what();
    }
  }
  EXPECT_EQ(good, 100u);
}

TEST_F(Clients, AServerThatIsGoneIsSaid) {
  ClientOptions nobody = options();
  {
    Backend other;
    const ClusterService gone({.address = "127.0.0.1:0", .tls = {}}, other);
    nobody.server = "127.0.0.1:" + std::to_string(gone.port());
  }
  nobody.outage = milliseconds(300);
  ClusterClient client(nobody);
  const std::string text = said(
      ErrorCode::kUnavailable, [&] { static_cast<void>(client.wait({1}, std::chrono::hours(1))); });
  EXPECT_NE(text.find("no server answers at " + nobody.server), std::string::npos) << text;
  for (const SubmitOutcome& one : client.submit_all(named("good", 500))) {
    ASSERT_TRUE(one.error);
    EXPECT_EQ(one.error->code(), ErrorCode::kUnavailable);
  }
}

}  // namespace
}  // namespace harmonics::inline in_rpc
