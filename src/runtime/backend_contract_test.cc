// The contract of every backend: the answers of the CPU, forward and backward, within a tolerance
// that each states. A new backend joins with a line at the end of this file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/runtime/stage_backend.h>

#include <error_testing.h>

#include "layer_cases_testing.h"
#include "plain_row_testing.h"

namespace harmonics::inline in_runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kBatch = 5;

struct Contender {
  std::string name;
  Backend backend;
  PrecisionPolicy precision;
  /// Largest difference, relative to the largest value of the tensor (at least 1).
  double tolerance;
  int recompute = 1;
  bool reproducible = false;
};
void PrintTo(const Contender& contender, std::ostream* out) { *out << contender.name; }

RuntimeOptions options_of(const Contender& contender) {
  RuntimeOptions options;
  options.backend = contender.backend;
  options.precision = contender.precision;
  options.recompute = contender.recompute;
  options.reproducible = contender.reproducible;
  options.strict = true;
  return options;
}

Tensor random_floats(Shape shape, std::uint64_t seed, DType dtype = DType::kFloat32) {
  Tensor out = Tensor::empty(std::move(shape), DType::kFloat32);
  Random random(seed, "contract");
  for (float& value : out.mutable_values<float>()) value = random.normal();
  return convert_tensor(out, dtype);
}

Tensor random_ids(Shape shape, std::int64_t bound, DType dtype = DType::kInt64) {
  Tensor out = Tensor::empty(std::move(shape), DType::kInt64);
  Random random(7, "ids");
  for (auto& value : out.mutable_values<std::int64_t>()) value = random.below(bound);
  return convert_tensor(out, dtype);
}

Shape batched(Shape shape) {
  shape.insert(shape.begin(), kBatch);
  return shape;
}

/// What the answers are compared with: libtorch on the CPU, for the reproducible arithmetic on a
/// device the same arithmetic there.
RuntimeOptions reference_of(const Contender& contender) {
  RuntimeOptions options;
  options.reproducible = contender.reproducible && contender.backend != Backend::CPU;
  return options;
}

/// Everything that a stage says about one micro-batch.
struct Answers {
  NamedTensors outputs, input_gradients, parameter_gradients, parameters, evaluated;
  TapReport trained, judged;
};

Answers ask(Stage& stage, const NamedTensors& inputs) {
  constexpr MicroBatch kMicroBatch{3, 0, 2, kBatch};
  Answers answers;
  answers.outputs = stage->forward(kMicroBatch, inputs, answers.trained);
  answers.input_gradients = stage->backward(kMicroBatch, {});
  answers.parameter_gradients = stage->gradients();
  for (const auto& [name, value] : stage->parameters()) answers.parameters[name] = value;
  answers.evaluated = stage->evaluate(inputs, answers.judged);
  return answers;
}

class BackendContract : public testing::TestWithParam<Contender> {
 protected:
  void SetUp() override {
    const Backend backend = GetParam().backend;
    if (backend == Backend::GPU && !cuda_available()) {
      const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
      if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU answers";
      GTEST_SKIP() << "no GPU answers";
    }
    if (backend == Backend::FPGA && list_opencl_devices().empty()) {
      GTEST_SKIP() << opencl_lacking({}, {});
    }
  }

  static void expect_near(const NamedTensors& ours, const NamedTensors& theirs, const char* what) {
    ASSERT_EQ(ours.size(), theirs.size()) << what;
    for (const auto& [name, value] : theirs) {
      ASSERT_TRUE(ours.contains(name)) << what << " " << name;
      ASSERT_EQ(ours.at(name).shape(), value.shape()) << what << " " << name;
      if (!is_floating(value.dtype())) continue;
      if (GetParam().tolerance == 0) {
        EXPECT_TRUE(std::ranges::equal(ours.at(name).bytes(), value.bytes()))
            << what << " " << name << ": other bits";
      }
      const Tensor a = convert_tensor(ours.at(name), DType::kFloat64);
      const Tensor b = convert_tensor(value, DType::kFloat64);
      double largest = 1, off = 0;
      for (std::int64_t i = 0; i < b.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        largest = std::max(largest, std::abs(b.values<double>()[at]));
        const double difference = std::abs(a.values<double>()[at] - b.values<double>()[at]);
        off = std::isnan(difference) ? INFINITY : std::max(off, difference);
      }
      EXPECT_LE(off, GetParam().tolerance * largest) << what << " " << name;
    }
  }

  /// Compares with the CPU and returns what ran on the CPU for want of an operation.
  static std::vector<std::string> compare(const HarmonicGraph& graph, const NamedTensors& inputs) {
    Stage ours(graph, options_of(GetParam())), cpu(graph, reference_of(GetParam()));
    const Answers a = ask(ours, inputs), b = ask(cpu, inputs);
    expect_near(a.outputs, b.outputs, "output");
    expect_near(a.evaluated, b.evaluated, "evaluated");
    expect_near(a.input_gradients, b.input_gradients, "gradient of input");
    expect_near(a.parameter_gradients, b.parameter_gradients, "gradient of");
    expect_near(a.parameters, b.parameters, "parameter");
    const double bar = GetParam().tolerance * std::max(1.0, std::abs(b.trained.loss_sum));
    EXPECT_NEAR(a.trained.loss_sum, b.trained.loss_sum, bar);
    EXPECT_NEAR(a.judged.loss_sum, b.judged.loss_sum, bar);
    EXPECT_EQ(a.judged.judged, b.judged.judged);
    if (GetParam().precision == PrecisionPolicy::kFull) {
      EXPECT_EQ(a.judged.correct, b.judged.correct);
    }
    return ours->fallbacks();
  }

  /// inputs -> the layer -> mse against a random target; the layer's output leaves too.
  static std::vector<std::string> compare_layer(const LayerCase& item) {
    SCOPED_TRACE(item.label);
    GraphBuilder builder("check"), probe("probe");
    std::vector<std::string> names;
    NamedTensors inputs;
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      const std::int64_t below = item.ids_below(i);
      const DType dtype = below > 0 ? DType::kInt64 : DType::kFloat32;
      const std::string name = format("x{}@1", i);
      builder.add(ProducerNode{name, item.inputs[i], dtype, below > 0 ? 0U : 1U});
      probe.add(ProducerNode{name, item.inputs[i], dtype});
      names.push_back(name);
      inputs[name] = below > 0 ? random_ids(batched(item.inputs[i]), below)
                               : random_floats(batched(item.inputs[i]), 10 + i);
      if (item.positive) {
        for (float& value : inputs[name].mutable_values<float>()) value = std::abs(value) + 0.5f;
      }
    }
    const LayerNode layer{"layer", item.type, item.attributes, {}, names, item.activation};
    const Shape out = probe.add(layer).build().spec("layer").shape;
    builder.add(layer).producer("target", out).tap("mse", "layer", "target", 0.5);
    builder.consumer("out", "layer");
    inputs["target"] = random_floats(batched(out), 99);
    return compare(builder.build(), inputs);
  }

  static NamedTensors digits(const HarmonicGraph& graph) {
    NamedTensors inputs;
    for (const ProducerNode& node : graph.producers()) {
      inputs[node.name] = is_floating(node.dtype) ? random_floats(batched(*node.shape), 4)
                                                  : random_ids(batched(*node.shape), 10);
    }
    return inputs;
  }
};

// What must not leave the device: the list of the accelerators' issue, and what shapes tensors.
const std::set<std::string> kOnDevice = {
    "linear",  "conv2d",   "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool",
    "add",     "concat",   "mul",      "flatten",  "batch_norm",        "layer_norm",
    "reshape", "identity", "dropout",  "tokens",   "class_token",       "position",
    "select",  "mean"};

// What the reproducible arithmetic leaves out, whole types and forms of others, it has to refuse.
const std::set<std::string> kReproducibleToo = {"attention", "embedding", "rms_norm"};

bool must_be_refused(const Contender& contender, const LayerCase& item) {
  if (!contender.reproducible) return false;
  if (!kOnDevice.contains(item.type) && !kReproducibleToo.contains(item.type)) return true;
  // Windows, positions and norms it knows in all their forms.
  static const std::set<std::string> kInOneForm = {"add", "attention", "mean", "mul"};
  return !item.native && kInOneForm.contains(item.type);
}

TEST_P(BackendContract, EveryLayer) {
  for (const LayerCase& item : layer_cases()) {
    if (must_be_refused(GetParam(), item)) {
      expect_error(ErrorCode::kUnimplemented, "layer 'layer' (" + item.type + ")",
                   [&] { static_cast<void>(compare_layer(item)); });
      continue;
    }
    const auto fallbacks = compare_layer(item);
    EXPECT_TRUE(fallbacks.empty() || !item.native || !kOnDevice.contains(item.type)) << item.label;
  }
  for (const LayerCase& item : window_cases()) {
    EXPECT_THAT(compare_layer(item), IsEmpty()) << item.label;
  }
}

TEST_P(BackendContract, EveryActivation) {
  for (const std::string& name : activation_type_names()) {
    const auto fallbacks =
        compare_layer({name, "linear", with({{"out", whole(4)}}), {{3, 5}}, name});
    EXPECT_THAT(fallbacks, IsEmpty()) << name;
  }
}

TEST_P(BackendContract, Embedding) {
  GraphBuilder builder("embed");
  builder.producer("ids", Shape{4}, DType::kInt64).producer("target", Shape{4, 3});
  builder.layer("table", "embedding", with({{"rows", whole(5)}, {"width", whole(3)}}), {"ids"});
  builder.layer("flat", "flatten", {}, {"ids"});
  builder.tap("mse", "table", "target").consumer("out", "table").consumer("same", "flat");
  static_cast<void>(compare(builder.build(), {{"ids", random_ids({kBatch, 4}, 5)},
                                              {"target", random_floats({kBatch, 4, 3}, 2)}}));
}

TEST_P(BackendContract, EveryLoss) {
  for (const std::string& loss : loss_type_names()) {
    SCOPED_TRACE(loss);
    if (loss == "next_token") continue;  // its targets are ids: below
    GraphBuilder builder("loss");
    builder.add(ProducerNode{"x@1", Shape{4}, DType::kFloat32, 1});
    builder.layer("p", "linear", with({{"out", whole(4)}}), {"x@1"}, "sigmoid");
    builder.producer("target", Shape{4}).tap(loss, "p", "target", 0.7);
    Tensor target = random_floats({kBatch, 4}, 5);
    for (float& value : target.mutable_values<float>()) value = 1 / (1 + std::exp(-value));
    const NamedTensors inputs = {{"x@1", random_floats({kBatch, 4}, 6)}, {"target", target}};
    EXPECT_THAT(compare(builder.build(), inputs), IsEmpty());
  }
}

TEST_P(BackendContract, ClassIdsOfEveryShapeAndWidth) {
  for (const Shape& ids : {Shape{3}, Shape{3, 1}}) {
    for (const DType dtype : {DType::kInt64, DType::kInt32, DType::kUInt8}) {
      GraphBuilder builder("ids");
      builder.add(ProducerNode{"x@1", Shape{3, 4}, DType::kFloat32, 1});
      builder.layer("p", "linear", with({{"out", whole(5)}}), {"x@1"});
      builder.producer("target", ids, dtype).tap("cross_entropy", "p", "target");
      const NamedTensors inputs = {{"x@1", random_floats({kBatch, 3, 4}, 6)},
                                   {"target", random_ids(batched(ids), 5, dtype)}};
      EXPECT_THAT(compare(builder.build(), inputs), IsEmpty()) << dtype_name(dtype);
    }
  }
}

TEST_P(BackendContract, NextToken) {
  GraphBuilder builder("next");
  builder.add(ProducerNode{"x@1", Shape{4, 3}, DType::kFloat32, 1});
  builder.layer("p", "linear", with({{"out", whole(5)}}), {"x@1"});
  builder.producer("target", Shape{4}, DType::kInt64).tap("next_token", "p", "target", 0.5);
  Tensor ids = random_ids({kBatch, 4}, 5);
  ids.mutable_values<std::int64_t>()[2] = -1;
  static_cast<void>(
      compare(builder.build(), {{"x@1", random_floats({kBatch, 4, 3}, 6)}, {"target", ids}}));
}

TEST_P(BackendContract, DropoutDrawsTheSameBits) {
  GraphBuilder builder("drop");
  builder.producer("x", Shape{37}).layer("y", "dropout", with({{"p", 0.4}}), {"x"});
  builder.layer("z", "linear", with({{"out", whole(2)}}), {"y"});
  builder.producer("t", Shape{2}).tap("mse", "z", "t").consumer("out", "y");
  const NamedTensors inputs = {{"x", random_floats({kBatch, 37}, 1)},
                               {"t", random_floats({kBatch, 2}, 2)}};
  Stage ours(builder.build(), options_of(GetParam())),
      cpu(builder.build(), reference_of(GetParam()));
  TapReport report;
  const MicroBatch micro_batch{(std::uint64_t{5} << 32) + 9, 0, 11, kBatch};
  const Tensor a = ours->forward(micro_batch, inputs, report).at("out");
  const Tensor b = cpu->forward(micro_batch, inputs, report).at("out");
  EXPECT_TRUE(std::ranges::equal(a.values<float>(), b.values<float>()));
}

TEST_P(BackendContract, SumsTheGradientsOfAllUsesAndTaps) {
  GraphBuilder builder("fan");
  builder.add(ProducerNode{"x@1", Shape{4}, DType::kFloat32, 3});
  builder.layer("a", "linear", with({{"out", whole(4)}}), {"x@1"}, "tanh");
  builder.layer("b", "mul", {}, {"a", "a"}).layer("c", "add", {}, {"a", "b", "x@1"});
  builder.layer("d", "add", {}, {"c", "x@1"}).producer("target", Shape{4});
  builder.tap("mse", "d", "target").tap("mse", "a", "target", 0.5).consumer("soft", "d", "softmax");
  static_cast<void>(compare(builder.build(), {{"x@1", random_floats({kBatch, 4}, 1)},
                                              {"target", random_floats({kBatch, 4}, 2)}}));
}

TEST_P(BackendContract, EveryOptimizerLearnsAlike) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    for (const double momentum : {0.0, 0.9}) {
      RuntimeOptions ours = options_of(GetParam()), cpu = reference_of(GetParam());
      for (RuntimeOptions* options : {&ours, &cpu}) {
        options->optimizer.kind = kind;
        options->optimizer.momentum = momentum;
        options->optimizer.weight_decay = 0.02;
        options->optimizer.decay = momentum > 0 ? DecayScope::kWeights : DecayScope::kAll;
        // Adam divides by gradients that may be all rounding; a wide epsilon keeps this a test of
        // the rule.
        options->optimizer.epsilon = 1e-3;
        options->clip_norm = 0.5;
        options->micro_batches = 2;
      }
      PlainRow a({graph}, {ours}), b({graph}, {cpu});
      for (int step = 0; step < 4; ++step) {
        const double loss = a.train(digits(graph)).loss_sum;
        const double expected = b.train(digits(graph)).loss_sum;
        EXPECT_NEAR(loss, expected, 4 * GetParam().tolerance * expected) << step;
      }
      expect_near(a.optimizer_state(), b.optimizer_state(), "slot");
    }
  }
}

TEST_P(BackendContract, PartsEqualTheWholeBitForBit) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  RuntimeOptions options = options_of(GetParam());
  options.micro_batches = 2;
  PlainRow whole({graph}, {options});
  PlainRow parts(partition_graph(graph, 3), std::vector<RuntimeOptions>(3, options));
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(whole.train(digits(graph)).loss_sum, parts.train(digits(graph)).loss_sum);
  }
  EXPECT_EQ(weights_digest(whole.parameters()), weights_digest(parts.parameters()));
}

TEST_P(BackendContract, WeightsAndSlotsGoOutAndIn) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const RuntimeOptions options = options_of(GetParam());
  PlainRow a({graph}, {options}), b({graph}, {options});
  static_cast<void>(a.train(digits(graph)));
  Stage& to = b.stages().front();
  to->set_parameters(a.parameters());
  to->set_optimizer_state(a.optimizer_state(), 1);
  EXPECT_EQ(weights_digest(a.parameters()), weights_digest(b.parameters()));
  EXPECT_EQ(weights_digest(a.optimizer_state()), weights_digest(b.optimizer_state()));
  NamedTensors damaged = a.parameters();
  damaged.erase(damaged.begin());
  EXPECT_THROW(to->set_parameters(damaged), Error);
  damaged = a.parameters();
  damaged.begin()->second = Tensor::zeros({1, 1, 1});
  EXPECT_THROW(to->set_parameters(damaged), Error);
  EXPECT_EQ(weights_digest(a.parameters()), weights_digest(b.parameters())) << "nothing changed";
}

TEST_P(BackendContract, GradientsAndBuffersComeFromElsewhere) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  Stage ours(graph, options_of(GetParam())), cpu(graph, reference_of(GetParam()));
  static_cast<void>(ask(cpu, digits(graph)));
  const NamedTensors gradients = cpu->gradients();
  ours->set_gradients(gradients);
  EXPECT_EQ(weights_digest(ours->gradients()), weights_digest(gradients));
  ours->set_buffers(cpu->buffers());
  EXPECT_EQ(weights_digest(ours->buffers()), weights_digest(cpu->buffers()));
  const Update update{0.01, 1, 0};
  ours->update(update);
  cpu->update(update);
  expect_near(ours->parameters(), cpu->parameters(), "parameter");
  EXPECT_THROW(ours->set_gradients({{gradients.begin()->first, Tensor::zeros({1})}}), Error);
}

TEST_P(BackendContract, WrongInputsAreErrorsThatNameThem) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  Stage stage(graph, options_of(GetParam()));
  const NamedTensors good = digits(graph);
  TapReport report;
  NamedTensors bad = good;
  bad.erase(good.begin()->first);
  expect_error(ErrorCode::kFailedPrecondition, good.begin()->first,
               [&] { static_cast<void>(stage->evaluate(bad, report)); });
  bad = good;
  bad.begin()->second = Tensor::zeros({kBatch, 3, 3, 3});
  expect_error(ErrorCode::kInvalidArgument, "takes batches of",
               [&] { static_cast<void>(stage->evaluate(bad, report)); });
  expect_error(ErrorCode::kFailedPrecondition, "no forward pass", [&] {
    static_cast<void>(stage->backward({0, 7, 0, kBatch}, {}));
  });
}

// On a GPU an id beyond its table would end the device's work for good.
TEST_P(BackendContract, AnIdBeyondItsTableIsRefusedAndWorkGoesOn) {
  GraphBuilder builder("ids");
  builder.producer("ids", Shape{4}, DType::kInt64).producer("label", Shape{4}, DType::kInt32);
  builder.layer("table", "embedding", with({{"rows", whole(5)}, {"width", whole(3)}}), {"ids"});
  builder.layer("guess", "linear", with({{"out", whole(6)}}), {"table"});
  builder.tap("cross_entropy", "guess", "label");
  Stage stage(builder.build(), options_of(GetParam()));
  const NamedTensors good = {{"ids", random_ids({kBatch, 4}, 5)},
                             {"label", random_ids({kBatch, 4}, 6, DType::kInt32)}};
  const auto trained = [&](const NamedTensors& inputs) {
    TapReport report;
    static_cast<void>(stage->forward({0, 0, 0, kBatch}, inputs, report));
    static_cast<void>(stage->backward({0, 0, 0, kBatch}, {}));
    stage->reset();
    return report.loss_sum;
  };
  const double before = trained(good);
  for (const std::int64_t id : {std::int64_t{5}, std::int64_t{-1}}) {
    NamedTensors bad = good;
    bad["ids"] = random_ids({kBatch, 4}, 5);
    bad["ids"].mutable_values<std::int64_t>()[9] = id;
    expect_error(ErrorCode::kInvalidArgument,
                 "layer 'table' takes ids from 0 to 4, producer 'ids' brought " +
                     std::to_string(id) + " in row 2 of 5",
                 [&] { trained(bad); });
  }
  NamedTensors bad = good;
  bad["label"] = random_ids({kBatch, 4}, 6, DType::kInt32);
  bad["label"].mutable_values<std::int32_t>()[19] = 6;
  expect_error(
      ErrorCode::kInvalidArgument,
      "the loss of 'guess' takes ids from 0 to 5, producer 'label' brought 6 in row 4 of 5",
      [&] { trained(bad); });
  EXPECT_EQ(trained(good), before);
}

TEST_P(BackendContract, ANumberThatIsNoNumberIsFound) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  Stage stage(graph, options_of(GetParam()));
  NamedTensors inputs = digits(graph);
  for (auto& [name, tensor] : inputs) {
    if (is_floating(tensor.dtype())) tensor.mutable_values<float>()[3] = NAN;
  }
  TapReport report;
  static_cast<void>(stage->forward({0, 0, 0, kBatch}, inputs, report));
  EXPECT_FALSE(std::isfinite(report.loss_sum));
  EXPECT_FALSE(stage->first_non_finite().empty());
  stage->reset();
  report = {};
  static_cast<void>(stage->forward({0, 0, 0, kBatch}, digits(graph), report));
  EXPECT_TRUE(std::isfinite(report.loss_sum)) << "and forgotten";
  EXPECT_EQ(stage->first_non_finite(), "");
}

std::string contender_name(const testing::TestParamInfo<Contender>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, BackendContract,
    testing::Values(Contender{"torch", Backend::CPU, PrecisionPolicy::kFull, 0},
                    Contender{"recomputed", Backend::CPU, PrecisionPolicy::kFull, 0, 3},
                    Contender{"reproducible", Backend::CPU, PrecisionPolicy::kFull, 1e-5, 1, true}),
    contender_name);
INSTANTIATE_TEST_SUITE_P(
    OpenCl, BackendContract,
    testing::Values(Contender{"float32", Backend::FPGA, PrecisionPolicy::kFull, 1e-5},
                    Contender{"reproducible", Backend::FPGA, PrecisionPolicy::kFull, 0, 1, true}),
    contender_name);
INSTANTIATE_TEST_SUITE_P(
    Cuda, BackendContract,
    // Convolutions may use TF32 (10 bits of mantissa); bf16 has 7.
    testing::Values(Contender{"float32", Backend::GPU, PrecisionPolicy::kFull, 2e-3},
                    Contender{"bf16", Backend::GPU, PrecisionPolicy::kBf16, 4e-2},
                    Contender{"recomputed", Backend::GPU, PrecisionPolicy::kBf16, 4e-2, 3},
                    Contender{"reproducible", Backend::GPU, PrecisionPolicy::kFull, 0, 1, true}),
    contender_name);

}  // namespace
}  // namespace harmonics::inline in_runtime
