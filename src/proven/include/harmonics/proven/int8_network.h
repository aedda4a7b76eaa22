// Int8Network: a network in exact integer arithmetic, which can be proven (harmonics/zk/zk.h).
//
// Inputs and weights are int8, sums int32; between layers sums are scaled back to int8 by integer
// factors. The same bits come out on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/zk/network.h>
#include <harmonics/zk/zk.h>

namespace harmonics::inline in_proven {

/// The most layers of such a network, and of inputs that carry one layer's bias.
inline constexpr std::size_t kMaxInt8Layers = 1024;
inline constexpr std::uint32_t kMaxBiasInputs = 64;
/// What the inputs that carry the bias are set to: all but the last one, and the last one.
inline constexpr std::int8_t kBiasCoarse = 127;
inline constexpr std::int8_t kBiasFine = 1;
/// Factors are in units of 2^-31.
inline constexpr int kFactorBits = 31;

struct Int8Layer {
  std::string name;
  /// For a batch of 1. The last `bias_inputs` of its inputs are constant.
  LinearShape shape;
  std::uint32_t bias_inputs = 0;
  bool relu = false;
  /// Whether the largest of each 2x2 window goes on, after scaling.
  bool pool = false;
  std::vector<std::int8_t> weights;
  /// Per output, from sums to the next layer's inputs; empty for the last layer.
  std::vector<std::int32_t> factors;
  bool operator==(const Int8Layer&) const = default;

  /// The map for a batch of this size.
  [[nodiscard]] LinearShape shape_for(std::uint32_t batch) const;
  /// Numbers per sample that it takes without its constants, and that it gives the next layer.
  [[nodiscard]] std::size_t data_inputs() const;
  [[nodiscard]] std::size_t data_outputs() const;
  /// Appends one sample's constants.
  void append_constants(std::vector<std::int8_t>& out) const;
};

/// A value. Threads: const calls from any.
struct Int8Network {
  std::string graph;
  /// The producer that it reads, and the consumer that it fills.
  std::string producer;
  std::string consumer;
  /// Applied to the outputs after scaling: "" or "softmax".
  std::string activation;
  /// An input of 1 in the units of the int8 numbers.
  double input_factor = 1;
  std::vector<Int8Layer> layers;
  /// What a sum of the last layer is worth, per output.
  std::vector<double> output_scales;
  bool operator==(const Int8Network&) const = default;
};

/// Makes the int8 network of a chain of linear and conv2d (3x3, stride 1, padding 1) layers with
/// relu or nothing in between; a batch_norm behind a conv2d is folded into it, max_pool(2) is kept,
/// dropout and flatten are passed over. Any other layer is an Error (kUnimplemented) that names it.
/// `weights` are the graph's parameters by full name; `calibration` are float32 inputs with a batch
/// axis, from which the ranges are taken.
[[nodiscard]] Int8Network quantize(const HarmonicGraph& graph, const NamedTensors& weights,
                                   const Tensor& calibration);

/// The first layer's inputs for float32 rows, constants included.
[[nodiscard]] std::vector<std::int8_t> int8_input(const Int8Network& network, const Tensor& rows);
/// The inputs of layer `index` + 1 from the sums of layer `index`: relu, scaling, pooling,
/// constants. What a neighbour computes again to check a stage.
[[nodiscard]] std::vector<std::int8_t> next_input(const Int8Network& network, std::size_t index,
                                                  std::span<const std::int32_t> sums);
/// float32 outputs from the sums of the last layer.
[[nodiscard]] Tensor int8_output(const Int8Network& network, std::span<const std::int32_t> sums);
/// All layers, one after another.
[[nodiscard]] Tensor infer(const Int8Network& network, const Tensor& rows);

/// The network as harmonics/zk/network.h has it: its public layers, and views of its secrets. Its
/// outputs are the last sums, before relu.
[[nodiscard]] NetworkLayers provable_layers(const Int8Network& network);
[[nodiscard]] std::vector<LayerParameters> provable_parameters(const Int8Network& network);
/// Rows of int8_input without the constants: what prove_network takes.
[[nodiscard]] std::vector<std::int8_t> without_constants(const Int8Network& network,
                                                         std::span<const std::int8_t> input);

/// A safetensors file with the metadata "harmonics.int8" (docs/formats/custody.md).
void save_int8_network(const std::filesystem::path& path, const Int8Network& network);
/// Whether a safetensors file holds an int8 network.
[[nodiscard]] bool is_int8_network(const std::filesystem::path& path);
/// Bounded; whatever does not fit together is an Error (kDataLoss).
[[nodiscard]] Int8Network load_int8_network(const std::filesystem::path& path);

}  // namespace harmonics::inline in_proven
