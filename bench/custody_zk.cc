// Zero-knowledge proofs of a stage against the time and size that one core may spend on them, and
// commitments against libsodium's own products of points. CPU seconds.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
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
  return check && !good ? 1 : 0;
}
