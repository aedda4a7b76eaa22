// Replicas and workers in processes of their own, and what happens when one is killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/parameter_client.h>
#include <harmonics/schedule/parameter_server.h>

#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"

extern char** environ;

namespace harmonics::inline in_schedule {
namespace {

using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::minutes(2);
constexpr const char* kPlace = "HARMONICS_TEST_REPLICA_PLACE";
constexpr const char* kResult = "HARMONICS_TEST_REPLICA_RESULT";

/// This program once more, running one disabled test; ended with it if it is still there.
class Child {
 public:
  Child(const std::string& test, const RemoteBinding& place, const std::string& result = "-") {
    ::setenv(kPlace, binding_url(place).c_str(), 1);
    ::setenv(kResult, result.c_str(), 1);
    std::string program = "child";
    std::string filter = "--gtest_filter=" + test;
    std::string disabled = "--gtest_also_run_disabled_tests";
    char* arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
    posix_spawn_file_actions_t quiet;
    ::posix_spawn_file_actions_init(&quiet);
    ::posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int failed =
        ::posix_spawn(&process_, "/proc/self/exe", &quiet, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&quiet);
    if (failed != 0) fail_errno(failed, "cannot start a second process");
  }
  ~Child() {
    if (process_ != 0) kill();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    ::kill(process_, SIGKILL);
    static_cast<void>(wait());
  }
  int wait() {
    int status = -1;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return status;
  }

 private:
  pid_t process_ = 0;
};

RemoteBinding somewhere(RemoteTransport transport) {
  RemoteBinding place{"replicas", "127.0.0.1", reserved_port(), transport};
  return place;
}

RuntimeOptions one_micro_batch(int count = 1) {
  RuntimeOptions options = test_runtime();
  options.micro_batches = count;
  return options;
}

DistributedScheduler make_replica(std::size_t rank, const RemoteBinding& place,
                                  Nanoseconds deadline = kPatience) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  DistributedScheduler scheduler(partition_graph(graph, 2), {}, one_micro_batch());
  for (const ProducerNode& node : graph.producers()) {
    scheduler.bindProducer(node.name, test_data(node));
  }
  ReductionOptions options;
  options.first_contact = kPatience;
  options.deadline = deadline;
  scheduler.join_replicas(make_remote_ends(options.order, rank, {place, place}, "replicas"),
                          options);
  return scheduler;
}

TEST(ReplicaProcesses, DISABLED_SecondReplica) {
  DistributedScheduler scheduler = make_replica(1, parse_binding(std::getenv(kPlace)));
  scheduler.fit(2);
  std::ofstream(std::getenv(kResult)) << scheduler.weights_digest();
}

TEST(ReplicaProcesses, DISABLED_ReplicaWithoutEnd) {
  DistributedScheduler scheduler = make_replica(1, parse_binding(std::getenv(kPlace)));
  while (true) scheduler.step();
}

TEST(ReplicaProcesses, DISABLED_WorkerWithoutEnd) {
  ParameterClientOptions options;
  options.worker = 1;
  ParameterClient client({parse_binding(std::getenv(kPlace))}, options);
  while (true) {
    client.pull();
    client.push({{"weight", Tensor::of<float>({1}, {3})}}, 3, 4);
  }
}

class ReplicaProcessesOver : public testing::TestWithParam<RemoteTransport> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "this build lacks the transport";
  }
};

TEST_P(ReplicaProcessesOver, LearnWhatOneProcessLearns) {
  const RemoteBinding place = somewhere(GetParam());
  const TemporaryFolder folder;
  const std::filesystem::path result = folder / "digest";
  Child child("ReplicaProcesses.DISABLED_SecondReplica", place, result.string());
  DistributedScheduler scheduler = make_replica(0, place);
  scheduler.fit(2);
  EXPECT_EQ(child.wait(), 0);
  std::string second;
  std::ifstream(result) >> second;
  EXPECT_EQ(second, scheduler.weights_digest());

  const HarmonicGraph graph = zoo_graph("digits-mlp");
  CycleRuntime alone(graph, one_micro_batch(2));
  for (const ProducerNode& node : graph.producers()) {
    alone.bindProducer(node.name, test_data(node));
  }
  alone.fit(2);
  EXPECT_EQ(scheduler.weights_digest(), alone.weights_digest());
}

TEST_P(ReplicaProcessesOver, AKilledReplicaIsAnErrorThatNamesIt) {
  if (GetParam() == RemoteTransport::GRPC) GTEST_SKIP() << "the session is the same as over TCP";
  const RemoteBinding place = somewhere(GetParam());
  Child child("ReplicaProcesses.DISABLED_ReplicaWithoutEnd", place);
  // A session waits for a peer that might come back: this long.
  DistributedScheduler scheduler = make_replica(0, place, std::chrono::seconds(8));
  for (int step = 0; step < 3; ++step) scheduler.step();
  child.kill();
  try {
    for (int step = 0; step < 1000; ++step) scheduler.step();
    FAIL() << "the other replica is dead";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 of 2, with rank 1"));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ReplicaProcessesOver,
                         testing::Values(RemoteTransport::TCP, RemoteTransport::GRPC,
                                         RemoteTransport::SharedMemory),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

// The killed worker had three of four rows; every update is 4 with it and 4 without.
TEST(ReplicaProcesses, TheServerGoesOnWithoutAKilledWorker) {
  ParameterServerOptions options;
  options.workers = 2;
  options.first_contact = kPatience;
  options.worker_deadline = std::chrono::seconds(8);
  options.optimizer.kind = OptimizerKind::kSgd;
  options.optimizer.learning_rate = 1;
  ParameterServer server({{"weight", Tensor::of<float>({1}, {0})}}, somewhere(RemoteTransport::TCP),
                         options);
  Child child("ReplicaProcesses.DISABLED_WorkerWithoutEnd", server.place());
  ParameterClientOptions own;
  own.first_contact = kPatience;
  own.deadline = kPatience;
  ParameterClient client({server.place()}, own);
  for (int step = 0; step < 6; ++step) {
    client.pull();
    EXPECT_EQ(client.parameters().find("weight")->second.values<float>()[0], -4.0F * step);
    if (step == 3) child.kill();
    client.push({{"weight", Tensor::of<float>({1}, {1})}}, 1, 4);
  }
  client.pull();
  client.close();
  EXPECT_EQ(server.version(), 6);
  EXPECT_EQ(server.stats().workers_lost, 1);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
