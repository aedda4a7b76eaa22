#include <harmonics/proven/proven_pipeline.h>

#include <harmonics/base/error.h>
#include <harmonics/custody/chain.h>
#include <harmonics/transport/bus.h>

#include "proven_part.h"
#include "whole_network.h"

namespace harmonics::inline in_proven {
namespace {

constexpr const char* kOutputStage = "output";

std::string part_name(std::size_t index) { return format("part{}", index); }

std::string boundary_name(const Int8Network& network, std::size_t index) {
  const bool last = index + 1 == network.layers.size();
  return network.layers[index].name + "@" + (last ? kOutputStage : std::to_string(index + 1));
}

// What a part computes, without its weights: these are committed to.
Digest layer_digest(const Int8Network& network, std::size_t index) {
  const Int8Layer& layer = network.layers[index];
  return sha256(bytes_of(format("harmonics int8 layer 1\n{}\n{}\n{} {} {} {} {} {} {}",
                                network.graph, layer.name, static_cast<int>(layer.shape.kind),
                                layer.shape.inputs, layer.shape.outputs, layer.shape.height,
                                layer.shape.width, layer.bias_inputs, layer.relu) +
                         (layer.pool ? " pool" : "")));
}

Digest network_digest(const Int8Network& network) {
  ByteWriter layers;
  layers.raw(bytes_of("harmonics int8 network 1\n"));
  for (std::size_t i = 0; i < network.layers.size(); ++i) layers.raw(layer_digest(network, i));
  return sha256(layers.bytes());
}

std::size_t part_count(const Int8Network& network, const ProvenOptions& options) {
  return options.whole ? 1 : network.layers.size();
}

// The boundaries are those of the layers, or of the last one alone.
Opening opening_of(const Int8Network& network, const ProvenOptions& options) {
  Opening opening;
  const BlindingSeed chance = new_blinding_seed();
  std::copy_n(chance.begin(), opening.nonce.size(), opening.nonce.begin());
  const std::size_t parts = part_count(network, options);
  const std::vector<SigningKey>& keys = options.keys;
  for (std::size_t i = 0; i <= parts; ++i) {
    const SigningKey& key = keys.size() == 1 ? keys[0] : keys[i];
    const Digest graph = i == parts      ? Digest{}
                         : options.whole ? network_digest(network)
                                         : layer_digest(network, i);
    opening.stages.push_back(
        {i == parts ? kOutputStage : part_name(i), key.name(), key.public_key(), graph});
  }
  const std::size_t first = network.layers.size() - parts;
  for (std::size_t i = 0; i < parts; ++i) {
    opening.boundaries.push_back({boundary_name(network, first + i), part_name(i),
                                  i + 1 == parts ? kOutputStage : part_name(i + 1)});
  }
  return checked_opening(std::move(opening));
}

}  // namespace

struct ProvenPipeline::State {
  State(Int8Network given, const ProvenOptions& options) : network(std::move(given)) {
    const std::size_t parts = part_count(network, options);
    if (network.layers.empty() || (options.keys.size() != 1 && options.keys.size() != parts + 1)) {
      fail(ErrorCode::kInvalidArgument,
           "a network in {} parts needs one key, or {}: one per part and one for the output, "
           "not {}",
           parts, parts + 1, options.keys.size());
    }
    const Opening opening = opening_of(network, options);
    writer = std::make_shared<ChainWriter>(options.chain, opening);
    for (std::size_t i = 0; i <= parts; ++i) {
      logs.push_back(std::make_unique<CustodyLog>(
          opening, i == parts ? kOutputStage : part_name(i),
          options.keys.size() == 1 ? options.keys[0] : options.keys[i], writer));
    }
    for (std::size_t i = 0; i < parts && !options.whole; ++i) connect(i, options);
    if (options.whole) connect_whole(options);
    logs.back()->weights(0, {});
  }

  void connect(std::size_t part, const ProvenOptions& options) {
    const std::string name = boundary_name(network, part);
    auto [from, to] = options.connect ? options.connect(name) : make_bus(name);
    const Int8Layer& layer = network.layers[part];
    senders.emplace_back(layer, name, *logs[part], *from, options.patience);
    receivers.emplace_back(layer, name, *logs[part + 1], *to, options.patience);
    ends.push_back(std::move(from));
    ends.push_back(std::move(to));
    senders.back().announce();
  }

  void connect_whole(const ProvenOptions& options) {
    const std::string name = boundary_name(network, network.layers.size() - 1);
    auto [from, to] = options.connect ? options.connect(name) : make_bus(name);
    whole_sender =
        std::make_unique<NetworkSender>(network, name, *logs[0], *from, options.patience);
    whole_receiver = std::make_unique<NetworkReceiver>(provable_layers(network), name, *logs[1],
                                                       *to, options.patience);
    ends.push_back(std::move(from));
    ends.push_back(std::move(to));
    whole_sender->announce();
  }

  std::vector<std::int32_t> infer_whole(const std::vector<std::int8_t>& input,
                                        std::uint32_t batch) {
    whole_sender->send(step, input);
    return whole_receiver->receive(step, batch);
  }

  std::vector<std::int32_t> infer_in_parts(std::vector<std::int8_t> input, std::uint32_t batch) {
    BlindingSeed seed = new_blinding_seed();
    for (std::size_t i = 0;; ++i) {
      senders[i].send(step, input, seed);
      ProvenSums sums = receivers[i].receive(step, batch);
      if (i + 1 == network.layers.size()) return std::move(sums.values);
      input = next_input(network, i, sums.values);
      seed = input_seed_after(sums.seed);
    }
  }

  Int8Network network;
  std::shared_ptr<ChainWriter> writer;
  std::vector<std::unique_ptr<CustodyLog>> logs;
  std::vector<TransportPtr> ends;
  std::vector<ProvenSender> senders;
  std::vector<ProvenReceiver> receivers;
  /// Of a network that is proven whole.
  std::unique_ptr<NetworkSender> whole_sender;
  std::unique_ptr<NetworkReceiver> whole_receiver;
  std::uint64_t step = 0;
};

ProvenPipeline::ProvenPipeline(Int8Network network, const ProvenOptions& options)
    : state_(std::make_unique<State>(std::move(network), options)) {}
ProvenPipeline::~ProvenPipeline() = default;

Tensor ProvenPipeline::infer(const Tensor& rows) {
  State& s = *state_;
  std::vector<std::int8_t> input = int8_input(s.network, rows);
  const auto batch = static_cast<std::uint32_t>(rows.shape()[0]);
  s.logs.front()->data(s.network.producer, 0,
                       {static_cast<std::uint8_t>(rows.dtype()), rows.shape(), rows.bytes()});
  const std::vector<std::int32_t> sums =
      s.whole_sender ? s.infer_whole(input, batch) : s.infer_in_parts(std::move(input), batch);
  for (const auto& log : s.logs) log->end_step();
  ++s.step;
  return int8_output(s.network, sums);
}

void ProvenPipeline::close() {
  for (const auto& log : state_->logs) log->close();
}

}  // namespace harmonics::inline in_proven
