#include <harmonics/base/file.h>
#include <harmonics/schedule/parameter_server.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/parameter_client.h>
#include <harmonics/schedule/stage_row.h>

#include <temporary_folder_testing.h>

#include "parameter_wire.h"
#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::minutes(2);

RemoteBinding somewhere(RemoteTransport transport = RemoteTransport::TCP) {
  RemoteBinding place;
  place.host = "127.0.0.1";
  place.port = reserved_port();
  place.transport = transport;
  return place;
}

ParameterClientOptions worker_number(std::uint32_t worker) {
  ParameterClientOptions options;
  options.worker = worker;
  options.first_contact = kPatience;
  options.deadline = kPatience;
  return options;
}

ParameterServerOptions server_for(std::uint32_t workers) {
  ParameterServerOptions options;
  options.workers = workers;
  options.first_contact = kPatience;
  options.worker_deadline = kPatience;
  options.optimizer.kind = OptimizerKind::kSgd;
  options.optimizer.learning_rate = 1.0;
  return options;
}

NamedTensors numbers(float a, float b = 0) {
  return {{"a", Tensor::of<float>({1}, {a})}, {"b", Tensor::of<float>({2}, {b, b})}};
}

float value_of(const NamedTensors& tensors, const char* name = "a") {
  return tensors.find(name)->second.values<float>()[0];
}

class ServerOver : public testing::TestWithParam<RemoteTransport> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "this build lacks the transport";
  }
};

constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kRows = 10;

NamedTensors batch_number(const HarmonicGraph& graph, std::int64_t number) {
  NamedTensors batch;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    // An uneven last batch now and then, and one with fewer rows than workers.
    shape.insert(shape.begin(), number % 3 == 2 ? 3 : kRows);
    Tensor tensor = Tensor::empty(shape, node.dtype);
    Random random(static_cast<std::uint64_t>(number), node.name);
    if (node.dtype == DType::kInt64) {
      for (auto& value : tensor.mutable_values<std::int64_t>()) value = random.below(4);
    } else {
      for (auto& value : tensor.mutable_values<float>()) value = random.normal();
    }
    batch.emplace(node.name, tensor);
  }
  return batch;
}

RuntimeOptions worker_runtime() {
  RuntimeOptions options = test_runtime();
  options.micro_batches = 1;
  return options;
}

ParameterServerOptions learning_server(std::uint32_t workers) {
  ParameterServerOptions options = server_for(workers);
  options.optimizer = worker_runtime().optimizer;
  options.clip_norm = worker_runtime().clip_norm;
  return options;
}

/// What one process learns that cuts each batch into as many micro-batches as there are workers.
NamedTensors learn_alone(const HarmonicGraph& graph, int workers, double clip_norm) {
  RuntimeOptions options = worker_runtime();
  options.micro_batches = workers;
  options.clip_norm = clip_norm;
  StageRow row({graph}, {options});
  for (std::int64_t step = 0; step < kSteps; ++step) row.train(batch_number(graph, step));
  return row.parameters();
}

/// Workers on threads, each until `kSteps`; their errors.
std::vector<std::string> learn(const HarmonicGraph& graph, const std::vector<RemoteBinding>& places,
                               std::uint32_t workers) {
  std::vector<std::function<void()>> actions;
  for (std::uint32_t i = 0; i < workers; ++i) {
    actions.push_back([&, i] {
      ParameterWorker worker(graph, worker_runtime(), ParameterClient(places, worker_number(i)));
      while (true) {
        const std::int64_t version = worker.pull();
        if (version == kSteps) break;
        worker.push_share(batch_number(graph, version));
      }
      worker.client().close();
    });
  }
  return at_the_same_time(actions);
}

TEST_P(ServerOver, SynchronousWorkersLearnWhatOneProcessLearns) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const NamedTensors start = trained_parameters(graph, worker_runtime());
  for (const std::uint32_t workers : {1, 2, 4}) {
    ParameterServer server(start, somewhere(GetParam()), learning_server(workers));
    EXPECT_THAT(learn(graph, {server.place()}, workers), Each(""));
    EXPECT_EQ(server.version(), kSteps);
    EXPECT_EQ(
        weights_digest(server.parameters()),
        weights_digest(learn_alone(graph, static_cast<int>(workers), worker_runtime().clip_norm)))
        << workers << " workers";
    server.wait_until_left(kPatience);
    EXPECT_EQ(server.stats().workers_lost, 0);
  }
}

// What is frozen is no business of the server's, also where it comes from a file.
TEST_P(ServerOver, FrozenLayersStayWithTheWorkers) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {6}; producer y {1} int64;
    layer first linear(8, trainable=false); layer norm batch_norm(trainable=false);
    layer second linear(8); layer last linear(4);
    cycle { x -> first -> norm -(tanh)-> second -> last; last <-(cross_entropy)- y; })");
  const TemporaryFolder folder;
  const auto file = folder.path() / "weights.safetensors";
  RuntimeOptions other = worker_runtime();
  other.seed = 99;
  StageRow elsewhere({graph}, {other});
  write_safetensors(file, {elsewhere.parameters(), {}}, false);
  const NamedTensors start = trained_parameters(graph, worker_runtime(), file);
  EXPECT_FALSE(start.contains("first.weight"));
  EXPECT_FALSE(start.contains("norm.running_mean"));
  ParameterServer server(start, somewhere(GetParam()), learning_server(2));
  std::vector<NamedTensors> learnt(2);
  std::vector<std::function<void()>> actions;
  for (std::uint32_t i = 0; i < 2; ++i) {
    actions.push_back([&, i] {
      ParameterWorker worker(graph, worker_runtime(),
                             ParameterClient({server.place()}, worker_number(i)));
      worker.load_weights(file);
      for (std::int64_t version = worker.pull(); version < kSteps; version = worker.pull()) {
        worker.push_share(batch_number(graph, version));
      }
      learnt[i] = worker.parameters();
      worker.client().close();
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  RuntimeOptions options = worker_runtime();
  options.micro_batches = 2;
  StageRow alone({graph}, {options});
  load_weights(file, alone);
  for (std::int64_t step = 0; step < kSteps; ++step) alone.train(batch_number(graph, step));
  for (const NamedTensors& one : learnt) {
    EXPECT_EQ(weights_digest(one), weights_digest(alone.parameters()));
  }
}

TEST_P(ServerOver, ShardsLearnTheSame) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto shards = shard_parameters(trained_parameters(graph, worker_runtime()), 3);
  std::vector<std::unique_ptr<ParameterServer>> servers;
  std::vector<RemoteBinding> places;
  for (std::uint32_t i = 0; i < 3; ++i) {
    ParameterServerOptions options = learning_server(2);
    options.clip_norm = 0;
    options.shard = i;
    options.shards = 3;
    servers.push_back(std::make_unique<ParameterServer>(shards[i], somewhere(GetParam()), options));
    places.insert(places.begin(), servers.back()->place());
  }
  EXPECT_THAT(learn(graph, places, 2), Each(""));
  NamedTensors all;
  for (const auto& server : servers) all.merge(server->parameters());
  EXPECT_EQ(weights_digest(all), weights_digest(learn_alone(graph, 2, 0)));
}

// The first worker may be two steps ahead of the second, which does nothing at all.
TEST_P(ServerOver, TheStalenessBoundHolds) {
  ParameterServerOptions options = server_for(2);
  options.mode = ParameterMode::BoundedStaleness;
  options.staleness = 2;
  ParameterServer server(numbers(0), somewhere(GetParam()), options);
  ParameterClient slow({server.place()}, worker_number(1));
  std::thread waits([&] { slow.pull(); });
  ParameterClientOptions impatient = worker_number(0);
  ParameterClient fast({server.place()}, impatient);
  for (int step = 0; step < 3; ++step) {
    fast.pull();
    EXPECT_EQ(fast.version(), step);
    fast.push(numbers(1), 1, 1);
  }
  waits.join();
  server.wait_for_version(3, kPatience);  // applied, not answered
  EXPECT_EQ(value_of(server.parameters()), -3.0F);
  slow.push(numbers(10), 4, 4);  // from version 0: as stale as it may be
  fast.pull();
  EXPECT_EQ(fast.version(), 4);
  EXPECT_EQ(value_of(fast.parameters()), -13.0F);
  slow.pull();
  slow.close();
  fast.push(numbers(0), 1, 1);
  fast.pull();
  fast.close();
  EXPECT_EQ(server.stats().longest_lead, 2);
}

TEST_P(ServerOver, ManyWorkersStayWithinTheBound) {
  constexpr std::uint32_t kWorkers = 4;
  ParameterServerOptions options = server_for(kWorkers);
  options.mode = ParameterMode::BoundedStaleness;
  options.staleness = 1;
  ParameterServer server(numbers(0), somewhere(GetParam()), options);
  std::vector<std::function<void()>> actions;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    actions.push_back([&, i] {
      ParameterClient client({server.place()}, worker_number(i));
      for (int step = 0; step < 25; ++step) {
        client.pull();
        client.push(numbers(1), 1, 1);
      }
      client.close();
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  server.wait_until_left(kPatience);
  EXPECT_EQ(server.version(), 100);
  EXPECT_EQ(value_of(server.parameters()), -100.0F);
  EXPECT_LE(server.stats().longest_lead, 1);
  EXPECT_EQ(server.stats().workers_lost, 0);
}

// Of twelve rows the lost worker had six: the others' count double from then on.
TEST_P(ServerOver, TheRestGoesOnWhenAWorkerIsLost) {
  ParameterServer server(numbers(0), somewhere(GetParam()), server_for(3));
  const auto work = [&](std::uint32_t worker, std::int64_t samples, int steps) {
    ParameterClient client({server.place()}, worker_number(worker));
    for (int step = 0; step < steps; ++step) {
      client.pull();
      client.push(numbers(static_cast<float>(samples)), samples, 12);
    }
    if (worker != 2) client.close();
  };
  EXPECT_THAT(
      at_the_same_time({[&] { work(0, 2, 4); }, [&] { work(1, 4, 4); }, [&] { work(2, 6, 2); }}),
      Each(""));
  server.wait_until_left(kPatience);
  EXPECT_EQ(server.version(), 4);
  EXPECT_EQ(value_of(server.parameters()), -48.0F);
  EXPECT_EQ(server.stats().workers_lost, 1);
}

TEST_P(ServerOver, ASilentWorkerIsLostAndItsPlaceIsFree) {
  ParameterServerOptions options = server_for(2);
  options.worker_deadline = std::chrono::seconds(3);
  ParameterServer server(numbers(0), somewhere(GetParam()), options);
  ParameterClient silent({server.place()}, worker_number(1));
  std::thread comes([&] { silent.pull(); });
  ParameterClient client({server.place()}, worker_number(0));
  client.pull();
  comes.join();
  client.push(numbers(1), 1, 2);
  client.pull();  // once the other's time is over
  EXPECT_EQ(value_of(client.parameters()), -2.0F);
  EXPECT_EQ(server.stats().workers_lost, 1);
  EXPECT_THROW(
      {
        silent.push(numbers(1), 1, 2);
        silent.pull();
      },
      Error);
  silent.reconnect();
  silent.pull();
  EXPECT_EQ(silent.version(), 1);
  EXPECT_EQ(server.stats().workers_joined, 3);
}

TEST_P(ServerOver, AServerThatComesBackFromACheckpointGoesOn) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const NamedTensors start = trained_parameters(graph, worker_runtime());
  const TemporaryFolder folder;
  ParameterServerOptions options = learning_server(1);
  options.checkpoint = folder / "parameters.safetensors";
  options.checkpoint_every = 2;
  auto server = std::make_unique<ParameterServer>(start, somewhere(GetParam()), options);
  const RemoteBinding place = server->place();
  ParameterWorker worker(graph, worker_runtime(), ParameterClient({place}, worker_number(0)));
  bool restarted = false;
  for (std::int64_t version = worker.pull(); version < kSteps; version = worker.pull()) {
    worker.push_share(batch_number(graph, version));
    if (version != 2 || restarted) continue;
    // Version 3 is lost with the server, version 2 was saved.
    server->wait_for_version(3, kPatience);
    server.reset();
    options.restore = options.checkpoint;
    server = std::make_unique<ParameterServer>(start, place, options);
    EXPECT_EQ(server->version(), 2);
    EXPECT_THROW(
        {
          worker.pull();
          worker.push_share(batch_number(graph, 3));
          worker.pull();
        },
        Error);
    worker.client().reconnect();
    restarted = true;
  }
  worker.client().close();
  EXPECT_TRUE(restarted);
  EXPECT_EQ(weights_digest(server->parameters()),
            weights_digest(learn_alone(graph, 1, worker_runtime().clip_norm)));
  options.shards = 2;
  options.clip_norm = 0;
  EXPECT_THROW(ParameterServer(start, somewhere(), options), Error);
}

INSTANTIATE_TEST_SUITE_P(Transports, ServerOver,
                         testing::Values(RemoteTransport::TCP, RemoteTransport::GRPC),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

/// A worker that says what it likes.
class RawWorker {
 public:
  explicit RawWorker(RemoteBinding place) {
    place.listen = false;
    place.max_message_size = 0;
    streams_ = make_parameter_streams(place, 0, {});
  }
  void greet(std::string_view words = kWorkerGreeting) {
    ByteWriter out;
    out.raw(bytes_of(words));
    send({MessageKind::kControl, 0, 0, {}, out.take()});
  }
  void send(const Message& message) { streams_.gradients->send(message, deadline_in(kPatience)); }
  void send_gradient(std::uint64_t step, std::uint32_t index, const Tensor& tensor,
                     const GradientWeight& weight = {1, 1}) {
    send({MessageKind::kGradient, step, index, tensor, encode(weight)});
  }
  std::optional<Message> receive() { return streams_.parameters->receive(deadline_in(kPatience)); }
  /// The text with which the server lets go.
  std::string refusal() {
    while (const std::optional<Message> message = receive()) {
      if (message->kind != MessageKind::kControl || message->micro_batch != 1) continue;
      const ByteSpan text = message->tensor.bytes();
      return {reinterpret_cast<const char*>(text.data()), text.size()};
    }
    return "closed";
  }

 private:
  ParameterStreams streams_;
};

TEST(ParameterServer, RefusesWhatDoesNotFitAndGoesOn) {
  ParameterServer server(numbers(0), somewhere(), server_for(1));
  const auto refused = [&](auto&& act) {
    RawWorker worker(server.place());
    act(worker);
    return worker.refusal();
  };
  const Tensor one = Tensor::of<float>({1}, {1});
  EXPECT_THAT(refused([](RawWorker& worker) { worker.greet("good day"); }),
              HasSubstr("no greeting"));
  EXPECT_THAT(refused([](RawWorker& worker) {
                worker.greet();
                worker.send_gradient(0, 0, Tensor::zeros({2}));
              }),
              HasSubstr("must be float32 {1}"));
  EXPECT_THAT(refused([](RawWorker& worker) {
                worker.greet();
                worker.send_gradient(0, 0, Tensor::zeros({1}, DType::kFloat64));
              }),
              HasSubstr("must be float32"));
  EXPECT_THAT(refused([&](RawWorker& worker) {
                worker.greet();
                worker.send_gradient(7, 0, one);
              }),
              HasSubstr("of version 0 was due"));
  EXPECT_THAT(refused([&](RawWorker& worker) {
                worker.greet();
                worker.send_gradient(0, 1, one);
              }),
              HasSubstr("was due"));
  EXPECT_THAT(refused([&](RawWorker& worker) {
                worker.greet();
                worker.send_gradient(0, 0, one, {5, 2});
              }),
              HasSubstr("make no sense"));
  EXPECT_THAT(refused([](RawWorker& worker) {
                worker.greet();
                const float huge = std::numeric_limits<float>::infinity();
                worker.send_gradient(0, 0, Tensor::of<float>({1}, {huge}));
              }),
              HasSubstr("not finite"));
  EXPECT_EQ(server.version(), 0);
  ParameterClient client({server.place()}, worker_number(0));
  client.pull();
  client.push(numbers(1), 1, 1);
  client.pull();
  EXPECT_EQ(value_of(client.parameters()), -1.0F);
  client.close();
  EXPECT_EQ(server.stats().workers_refused, 6);  // one never was a worker
}

TEST(ParameterServer, ATensorLargerThanAnyParameterIsNotRead) {
  ParameterServer server(numbers(0), somewhere(), server_for(1));
  RawWorker worker(server.place());
  worker.greet();
  ASSERT_TRUE(worker.receive());
  EXPECT_THROW(worker.send_gradient(0, 0, Tensor::zeros({1 << 20})), Error);
}

TEST(ParameterServer, OptionsAndCeilings) {
  const auto refused = [](auto&& change) {
    ParameterServerOptions options = server_for(1);
    change(options);
    EXPECT_THROW(ParameterServer(numbers(0), somewhere(), options), Error);
  };
  refused([](auto& options) { options.workers = 0; });
  refused([](auto& options) { options.workers = kMaxParameterWorkers + 1; });
  refused([](auto& options) { options.shards = 0; });
  refused([](auto& options) { options.shards = kMaxParameterShards + 1; });
  refused([](auto& options) { options.shard = 1; });
  refused([](auto& options) { options.shards = 2, options.clip_norm = 1; });
  refused([](auto& options) { options.checkpoint_every = 1; });
  refused([](auto& options) { options.restore = "/nowhere/at/all"; });
  EXPECT_THROW(ParameterServer({}, somewhere()), Error);
  EXPECT_THROW(ParameterServer({{"ids", Tensor::zeros({1}, DType::kInt64)}}, somewhere()), Error);
  EXPECT_THROW(ParameterClient({}), Error);
  EXPECT_THROW(static_cast<void>(shard_parameters(numbers(0), 3)), Error);
}

TEST(ParameterServer, AServerThatNeverComesIsAnErrorThatNamesIt) {
  ParameterClientOptions options = worker_number(0);
  options.first_contact = std::chrono::milliseconds(100);
  ParameterClient client({somewhere()}, options);
  EXPECT_THROW(client.push(numbers(0), 1, 1), Error);
  try {
    client.pull();
    FAIL() << "there is no server";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(error.what(), HasSubstr("parameter server 127.0.0.1:"));
  }
}

TEST(ParameterServer, WaitsEndAtTheirDeadlines) {
  const ParameterServer server(numbers(0), somewhere(), server_for(1));
  EXPECT_THROW(server.wait_for_version(1, std::chrono::milliseconds(20)), Error);
  EXPECT_THROW(server.wait_until_left(std::chrono::milliseconds(20)), Error);
}

TEST(ParameterServer, ClientsThatDoNotFitAreErrors) {
  ParameterServer server(numbers(0), somewhere(), server_for(1));
  ParameterServer another(numbers(0), somewhere(), server_for(1));
  ParameterClient two({server.place(), another.place()}, worker_number(0));
  EXPECT_THROW(two.pull(), Error);
  two.close();
  ParameterClient client({server.place()}, worker_number(0));
  client.pull();
  EXPECT_THROW(client.push({{"a", Tensor::zeros({1})}}, 1, 1), Error);
  NamedTensors wrong = numbers(1);
  wrong.at("b") = Tensor::zeros({3});
  EXPECT_THROW(client.push(wrong, 1, 1), Error);
  EXPECT_THROW(client.push(numbers(1), 2, 1), Error);
  client.push(numbers(1), 1, 1);
  EXPECT_THROW(client.push(numbers(1), 1, 1), Error);
  client.pull();
  EXPECT_EQ(client.version(), 1);
}

TEST(ShardParameters, BalancesBySize) {
  NamedTensors all;
  for (std::int64_t i = 0; i < 20; ++i) {
    all.emplace(format("p{}", i), Tensor::zeros({1 + 7 * i % 13, 5}));
  }
  for (std::uint32_t count = 1; count <= 20; ++count) {
    std::size_t names = 0;
    for (const NamedTensors& shard : shard_parameters(all, count)) {
      EXPECT_FALSE(shard.empty());
      names += shard.size();
    }
    EXPECT_EQ(names, all.size());
  }
}

TEST(ParameterWire, LayoutsAreReadBackAndDamageIsRefused) {
  ParameterLayout layout{ParameterMode::BoundedStaleness, 7, 1, 3, {}};
  layout.tensors = {{"a.weight", {{3, 4}, DType::kFloat32}}, {"b", {{}, DType::kFloat64}}};
  const Bytes bytes = encode(layout);
  EXPECT_EQ(decode_parameter_layout(bytes), layout);
  Random random(4, "layouts");
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = bytes;
    for (std::uint64_t i = 0; i <= random.below(3); ++i) {
      damaged[random.below(damaged.size())] = static_cast<std::byte>(random.below(256));
    }
    if (random.below(4) == 0) damaged.resize(random.below(damaged.size()));
    try {
      static_cast<void>(decode_parameter_layout(damaged));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
