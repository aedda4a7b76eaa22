// A part of one layer, whose product is proven with everything hidden (harmonics/zk/zk.h).
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

#include "part_prover.h"
#include "proven_part.h"

namespace harmonics::inline in_proven {
namespace {

class LayerProver final : public PartProver {
 public:
  LayerProver(NetworkPtr network, PartLayers layers)
      : PartProver(std::move(network), layers),
        layer_(this->network().layers[layers.first]),
        commitment_(commit_weights(layer_.shape, layer_.weights, weight_seed_)) {}

  [[nodiscard]] ByteSpan commitment() const override { return commitment_; }
  [[nodiscard]] StageProof prove(const Digest& context) override;
  void check_entering(const Link& link, const Tensor& tensor, const StageProof& came) override;
  void check_made(const Link& link, const StageProof& given) const override {
    static_cast<void>(check_product(layer_, link, made(), given));
  }

 protected:
  [[nodiscard]] std::vector<std::int8_t> input_of(const Tensor& entering) const override {
    return next_input(network(), layers().first - 1, entering.values<std::int32_t>());
  }
  [[nodiscard]] Tensor computed(std::vector<std::int8_t> input) override;

 private:
  const Int8Layer& layer_;
  const BlindingSeed weight_seed_ = new_blinding_seed();
  const Bytes commitment_;
  std::vector<std::int8_t> input_;  // of the batch computed last
  BlindingSeed input_seed_{};
  bool entered_ = false;  // the seed is that of what came
};

Tensor LayerProver::computed(std::vector<std::int8_t> input) {
  input_ = std::move(input);
  if (!std::exchange(entered_, false)) input_seed_ = new_blinding_seed();
  const std::size_t per_sample = std::size_t{layer_.shape.inputs} * layer_.shape.pixels();
  const LinearShape shape =
      layer_.shape_for(static_cast<std::uint32_t>(input_.size() / per_sample));
  const std::vector<std::int32_t> sums = linear_product(shape, input_, layer_.weights);
  return Tensor::of<std::int32_t>(sums_shape(shape), std::span<const std::int32_t>(sums));
}

StageProof LayerProver::prove(const Digest& context) {
  const BlindingSeed seed = new_blinding_seed();
  const LinearShape shape = layer_.shape_for(static_cast<std::uint32_t>(made().shape()[0]));
  return {commitment_,
          prove_stage(shape,
                      {input_, layer_.weights, made().values<std::int32_t>(), input_seed_,
                       weight_seed_, seed},
                      commitment_, context),
          Bytes(seed.begin(), seed.end())};
}

void LayerProver::check_entering(const Link& link, const Tensor& tensor, const StageProof& came) {
  input_seed_ =
      input_seed_after(check_product(network().layers[layers().first - 1], link, tensor, came));
  entered_ = true;
}

}  // namespace

std::unique_ptr<PartProver> make_layer_prover(NetworkPtr network, PartLayers layers) {
  if (layers.first != layers.last) {
    fail(ErrorCode::kInvalidArgument,
         "it holds the layers '{}' to '{}', and layers are proven in a part each: cut the graph "
         "into {} parts",
         network->layers[layers.first].name, network->layers[layers.last].name,
         network->layers.size());
  }
  return std::make_unique<LayerProver>(std::move(network), layers);
}

}  // namespace harmonics::inline in_proven
