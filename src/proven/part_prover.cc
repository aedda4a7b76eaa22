#include "part_prover.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

#include "proven_part.h"

namespace harmonics::inline in_proven {
namespace {

constexpr std::size_t kCentreTap = 4;
constexpr std::size_t kTaps = 9;
// Of what crosses between parts, either sign.
constexpr std::int32_t kLargestValue = 127;

// What crosses after a layer, as the layer of the next part takes it.
Int8Layer hand_over(const Int8Layer& after) {
  Int8Layer layer;
  layer.name = after.name + " handed over";
  layer.shape = after.shape;
  layer.shape.inputs = after.shape.outputs;
  const bool is_conv = after.shape.kind == LinearShape::Kind::kConv3x3;
  if (after.pool) {
    layer.shape.height /= 2;
    layer.shape.width /= 2;
  }
  const std::size_t channels = layer.shape.outputs;
  const std::size_t taps = is_conv ? kTaps : 1;
  layer.weights.assign(channels * channels * taps, 0);
  for (std::size_t i = 0; i < channels; ++i) {
    layer.weights[(i * channels + i) * taps + (is_conv ? kCentreTap : 0)] = 1;
  }
  return layer;
}

}  // namespace

Int8Network part_network(const Int8Network& network, PartLayers layers) {
  const auto begin = network.layers.begin();
  Int8Network part;
  part.graph = network.graph;
  part.producer = network.producer;
  part.layers.assign(begin + static_cast<std::ptrdiff_t>(layers.first),
                     begin + static_cast<std::ptrdiff_t>(layers.last) + 1);
  if (layers.last + 1 < network.layers.size()) part.layers.push_back(hand_over(part.layers.back()));
  return part;
}

void PartProver::compute_rows(const Tensor& rows) { made_ = computed(int8_input(network(), rows)); }

void PartProver::compute_entering(const Tensor& entering) { made_ = computed(input_of(entering)); }

namespace {

/// Proves its layers whole (network.h).
class NetworkProver final : public PartProver {
 public:
  NetworkProver(NetworkPtr network, PartLayers layers)
      : PartProver(std::move(network), layers),
        part_(part_network(this->network(), layers)),
        commitment_(commit_network(provable_layers(part_), provable_parameters(part_), seed_)) {}

  [[nodiscard]] ByteSpan commitment() const override { return commitment_; }
  [[nodiscard]] StageProof prove(const Digest& context) override;
  void check_entering(const Link& link, const Tensor& tensor, const StageProof& came) override;
  void check_made(const Link& link, const StageProof& given) const override {
    check_link_proof(link, given.proof, given.commitment);
  }

 protected:
  [[nodiscard]] std::vector<std::int8_t> input_of(const Tensor& entering) const override;
  [[nodiscard]] Tensor computed(std::vector<std::int8_t> input) override;

 private:
  [[nodiscard]] bool fits_before(const NetworkLayers& committed) const;

  const Int8Network part_;
  const BlindingSeed seed_ = new_blinding_seed();
  const Bytes commitment_;
  std::vector<std::int8_t> input_;  // of the batch computed last
};

StageProof NetworkProver::prove(const Digest& context) {
  const std::vector<std::int8_t> data = without_constants(part_, input_);
  return {commitment_,
          prove_network({commitment_, provable_parameters(part_), seed_},
                        {data, !is_first(), new_blinding_seed()}, context),
          {}};
}

Tensor NetworkProver::computed(std::vector<std::int8_t> input) {
  input_ = std::move(input);
  const Int8Layer& first = part_.layers.front();
  const auto batch =
      static_cast<std::uint32_t>(input_.size() / (first.shape.inputs * first.shape.pixels()));
  std::vector<std::int8_t> values = input_;
  for (std::size_t i = 0;; ++i) {
    const Int8Layer& layer = part_.layers[i];
    const LinearShape shape = layer.shape_for(batch);
    const std::vector<std::int32_t> sums = linear_product(shape, values, layer.weights);
    if (i + 1 == part_.layers.size()) {
      return Tensor::of<std::int32_t>(sums_shape(shape), std::span<const std::int32_t>(sums));
    }
    values = next_input(part_, i, sums);
  }
}

std::vector<std::int8_t> NetworkProver::input_of(const Tensor& entering) const {
  const Int8Layer& layer = part_.layers.front();
  const std::span<const std::int32_t> values = entering.values<std::int32_t>();
  std::vector<std::int8_t> out;
  for (std::size_t at = 0; at < values.size(); at += layer.data_inputs()) {
    for (const std::int32_t value : values.subspan(at, layer.data_inputs())) {
      out.push_back(static_cast<std::int8_t>(value));
    }
    layer.append_constants(out);
  }
  return out;
}

// Whether the part before may have committed to these: where it began is not known here.
bool NetworkProver::fits_before(const NetworkLayers& committed) const {
  for (std::size_t from = 0; from < layers().first; ++from) {
    const PartLayers before{from, layers().first - 1};
    if (committed == provable_layers(part_network(network(), before))) return true;
  }
  return false;
}

void NetworkProver::check_entering(const Link& link, const Tensor& tensor, const StageProof& came) {
  check_weights(link, came.commitment);
  if (!fits_before(committed_layers(came.commitment))) {
    fail_custody(Breach::kWrongWeights, "{}: other layers were committed to than come before '{}'",
                 passage_text(link.passage), part_.layers.front().name);
  }
  check_link_proof(link, came.proof, came.commitment);
  const std::size_t each = part_.layers.front().data_inputs();
  const std::span<const std::int32_t> values = tensor.values<std::int32_t>();
  const auto rows = static_cast<std::size_t>(tensor.shape().empty() ? 0 : tensor.shape()[0]);
  if (values.size() != rows * each || std::ranges::any_of(values, [](std::int32_t value) {
        return value < -kLargestValue || value > kLargestValue;
      })) {
    fail_custody(Breach::kWrongProof, "{}: the tensor is not one of this network",
                 passage_text(link.passage));
  }
}

}  // namespace

std::unique_ptr<PartProver> make_network_prover(NetworkPtr network, PartLayers layers) {
  const std::string problem = network_problem(provable_layers(part_network(*network, layers)));
  if (!problem.empty()) {
    fail(ErrorCode::kUnimplemented, "the layers '{}' to '{}' cannot be proven: {}",
         network->layers[layers.first].name, network->layers[layers.last].name, problem);
  }
  return std::make_unique<NetworkProver>(std::move(network), layers);
}

}  // namespace harmonics::inline in_proven
