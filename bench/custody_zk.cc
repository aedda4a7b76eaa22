// Zero-knowledge proofs of a stage and of whole networks against the time and size that may be
// spent on them, and many proofs checked at once against one after another. CPU seconds.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/zk/network.h>
#include <harmonics/zk/zk.h>

#include "rounds.h"

namespace {

using namespace harmonics;

struct Stage {
  LinearShape shape;
  std::vector<std::int8_t> input, weights;
  std::vector<std::int32_t> output;
  BlindingSeed seeds[3] = {new_blinding_seed(), new_blinding_seed(), new_blinding_seed()};
  Bytes committed;
  Digest context{};

  explicit Stage(const LinearShape& of) : shape(of) {
    Random random(1, "bench");
    input.resize(shape.input_rows() * shape.input_columns());
    weights.resize(shape.outputs * shape.weight_columns());
    for (auto* tensor : {&input, &weights}) {
      for (std::int8_t& value : *tensor) value = static_cast<std::int8_t>(random.below(256));
    }
    output = linear_product(shape, input, weights);
    committed = commit_weights(shape, weights, seeds[1]);
  }
  [[nodiscard]] Bytes prove() const {
    return prove_stage(shape, {input, weights, output, seeds[0], seeds[1], seeds[2]}, committed,
                       context);
  }
};

// A limit that stands in the reference column, and the share of it that was needed.
bool row(const std::string& name, double ours, double limit, const char* unit) {
  const double ratio = ours / limit;
  std::printf("%s | %.3g %s | %.3g %s | %.2f | <= 1.00\n", name.c_str(), ours, unit, limit, unit,
              ratio);
  return ratio <= 1;
}

bool measure(const std::string& name, const LinearShape& shape, int rounds) {
  const Stage stage(shape);
  (void)stage.prove();  // makes the generators
  std::vector<double> prove, verify;
  Bytes proof;
  for (int i = 0; i < rounds; ++i) {
    prove.push_back(bench::measured([&] { proof = stage.prove(); }).cpu);
    verify.push_back(bench::measured([&] {
                       (void)verify_stage_proof(proof, stage.committed, stage.context);
                     }).cpu);
  }
  bool good = row(name + ": commit input and output, prove", bench::median(prove), 0.5, "s");
  good &= row(name + ": verify", bench::median(verify), 0.1, "s");
  good &= row(name + ": proof", static_cast<double>(proof.size()) / 1024, 128, "KB");
  return good;
}

NetworkLayer dense(std::uint32_t inputs, std::uint32_t outputs, bool relu,
                   std::vector<std::int8_t> constants) {
  inputs += static_cast<std::uint32_t>(constants.size());
  return {{LinearShape::Kind::kDense, 1, inputs, outputs, 1, 1}, std::move(constants), relu, false};
}
NetworkLayer convolution(std::uint32_t inputs, std::uint32_t outputs, std::uint32_t extent,
                         bool pool) {
  return {
      {LinearShape::Kind::kConv3x3, 1, inputs + 2, outputs, extent, extent}, {127, 1}, true, pool};
}

// A network of random numbers in the shape of one that is shipped.
struct Network {
  NetworkLayers layers;
  std::vector<std::vector<std::int8_t>> weights;
  std::vector<std::vector<std::int32_t>> factors;
  std::vector<LayerParameters> parameters;
  std::vector<std::int8_t> input;
  BlindingSeed seeds[2] = {new_blinding_seed(), new_blinding_seed()};
  Bytes committed;

  Network(NetworkLayers of, std::uint32_t batch) : layers(std::move(of)) {
    Random random(1, "bench");
    const auto fill = [&](std::size_t count) {
      std::vector<std::int8_t> out(count);
      for (std::int8_t& value : out) value = static_cast<std::int8_t>(random.below(256));
      return out;
    };
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LinearShape& shape = layers[i].shape;
      weights.push_back(fill(shape.outputs * shape.weight_columns()));
      factors.emplace_back(i + 1 < layers.size() ? shape.outputs : 0,
                           static_cast<std::int32_t>((1U << 31) / 40 / shape.weight_columns()));
    }
    for (std::size_t i = 0; i < layers.size(); ++i) parameters.push_back({weights[i], factors[i]});
    input = fill(batch * layers.front().data_inputs());
    committed = commit_network(layers, parameters, seeds[0]);
  }
  [[nodiscard]] Bytes prove() const {
    return prove_network({committed, parameters, seeds[0]}, {input, false, seeds[1]}, {});
  }
};

struct Limits {
  double prove_s, verify_s, kilobytes;
};

bool measure_network(const std::string& name, const Network& network, const Limits& limits,
                     int rounds) {
  (void)network.prove();  // makes the generators
  std::vector<double> prove, verify;
  Bytes proof;
  for (int i = 0; i < rounds; ++i) {
    prove.push_back(bench::measured([&] { proof = network.prove(); }).cpu);
    verify.push_back(
        bench::measured([&] { (void)verify_network_proof(proof, network.committed, {}); }).cpu);
  }
  bool good = row(name + ": prove", bench::median(prove), limits.prove_s, "s");
  good &= row(name + ": verify", bench::median(verify), limits.verify_s, "s");
  good &= row(name + ": proof", static_cast<double>(proof.size()) / 1024, limits.kilobytes, "KB");
  return good;
}

// Proofs of one network, together and one after another.
bool measure_batch(const Network& network, std::size_t count, int rounds) {
  std::vector<Bytes> proofs;
  std::vector<ContextProof> all;
  for (std::size_t i = 0; i < count; ++i) proofs.push_back(network.prove());
  for (const Bytes& proof : proofs) all.push_back({proof, {}});
  std::vector<double> together, apart;
  for (int i = 0; i < rounds; ++i) {
    together.push_back(
        bench::measured([&] { (void)verify_network_proofs(all, network.committed); }).cpu);
    apart.push_back(bench::measured([&] {
                      for (const Bytes& proof : proofs) {
                        (void)verify_network_proof(proof, network.committed, {});
                      }
                    }).cpu);
  }
  return row(
      "digits, " + std::to_string(count) + " proofs of 1 picture: verify together beside apart",
      bench::median(together), bench::median(apart), "s");
}

bool measure_networks(bool short_run, int rounds) {
  const NetworkLayers digits = {dense(64, 256, true, {127, 1}), dense(256, 128, true, {127, 1}),
                                dense(128, 10, false, {127, 1})};
  bool good = measure_network("digits 64-256-128-10 in int8, 16 pictures", Network(digits, 16),
                              {3, 0.3, 512}, rounds);
  good &= measure_batch(Network(digits, 1), short_run ? 2 : 16, rounds);
  if (short_run) return good;
  const NetworkLayers lenet = {convolution(1, 32, 8, false), convolution(32, 64, 8, true),
                               dense(1024, 128, true, {127, 1}), dense(128, 10, false, {127, 1})};
  good &= measure_network("lenet in int8, convolutions and pooling, 16 pictures",
                          Network(lenet, 16), {30, 1, 2048}, std::min(rounds, 3));
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const int rounds = short_run ? 1 : 7;
  std::printf("name | ours | reference | ratio | bar\n");
  bool good =
      measure("dense 256x1024x1024", {LinearShape::Kind::kDense, 256, 1024, 1024, 1, 1}, rounds);
  good &= measure("convolution 3x3, 16 pictures 32x14x14 to 32",
                  {LinearShape::Kind::kConv3x3, 16, 32, 32, 14, 14}, rounds);
  good &= measure_networks(short_run, rounds);
  return check && !good ? 1 : 0;
}
