#include <harmonics/proven/proven_pipeline.h>

#include <harmonics/base/error.h>
#include <harmonics/custody/chain.h>
#include <harmonics/transport/bus.h>

#include "proven_part.h"

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
                                layer.shape.width, layer.bias_inputs, layer.relu)));
}

Opening opening_of(const Int8Network& network, const std::vector<SigningKey>& keys) {
  Opening opening;
  const BlindingSeed chance = new_blinding_seed();
  std::copy_n(chance.begin(), opening.nonce.size(), opening.nonce.begin());
  const std::size_t parts = network.layers.size();
  for (std::size_t i = 0; i <= parts; ++i) {
    const SigningKey& key = keys.size() == 1 ? keys[0] : keys[i];
    opening.stages.push_back({i == parts ? kOutputStage : part_name(i), key.name(),
                              key.public_key(), i == parts ? Digest{} : layer_digest(network, i)});
  }
  for (std::size_t i = 0; i < parts; ++i) {
    opening.boundaries.push_back({boundary_name(network, i), part_name(i),
                                  i + 1 == parts ? kOutputStage : part_name(i + 1)});
  }
  return checked_opening(std::move(opening));
}

}  // namespace

struct ProvenPipeline::State {
  State(Int8Network given, const ProvenOptions& options) : network(std::move(given)) {
    const std::size_t parts = network.layers.size();
    if (parts == 0 || (options.keys.size() != 1 && options.keys.size() != parts + 1)) {
      fail(ErrorCode::kInvalidArgument,
           "a network of {} layers needs one key, or {}: one per part and one for the output, "
           "not {}",
           parts, parts + 1, options.keys.size());
    }
    const Opening opening = opening_of(network, options.keys);
    writer = std::make_shared<ChainWriter>(options.chain, opening);
    for (std::size_t i = 0; i <= parts; ++i) {
      logs.push_back(std::make_unique<CustodyLog>(
          opening, i == parts ? kOutputStage : part_name(i),
          options.keys.size() == 1 ? options.keys[0] : options.keys[i], writer));
    }
    for (std::size_t i = 0; i < parts; ++i) connect(i, options);
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

  Int8Network network;
  std::shared_ptr<ChainWriter> writer;
  std::vector<std::unique_ptr<CustodyLog>> logs;
  std::vector<TransportPtr> ends;
  std::vector<ProvenSender> senders;
  std::vector<ProvenReceiver> receivers;
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
  BlindingSeed seed = new_blinding_seed();
  ProvenSums sums;
  for (std::size_t i = 0; i < s.network.layers.size(); ++i) {
    s.senders[i].send(s.step, input, seed);
    sums = s.receivers[i].receive(s.step, batch);
    if (i + 1 == s.network.layers.size()) break;
    input = next_input(s.network, i, sums.values);
    seed = input_seed_after(sums.seed);
  }
  for (const auto& log : s.logs) log->end_step();
  ++s.step;
  return int8_output(s.network, sums.values);
}

void ProvenPipeline::close() {
  for (const auto& log : state_->logs) log->close();
}

}  // namespace harmonics::inline in_proven
