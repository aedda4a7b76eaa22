// Tokens per second of a language model on a GPU: SmolLM2-135M's shape with drawn weights in bf16,
// greedy, one sequence alone and eight at the same time, through the generator that `harmonics
// generate` and `serve` use. Beside it what the memory of the GPU allows, the reproducible
// arithmetic, and transformers' own loop (reference/transformers_peer.py) where python3 has it.
// --kernels says where the time goes instead. Without a GPU it runs a small model on the CPU, which
// measures nothing and has no bar; HARMONICS_REQUIRE_GPU=1 makes that an error.
//
//   build-*/bench/generation_gpu [--short] [--check] [--kernels]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/torch_token_stage.h>
#include <harmonics/schedule/token_generator.h>

#include "pieces/kernel_table.h"
#include "reference/line_peer.h"
#include "rounds.h"

namespace {

using namespace harmonics;

struct ModelShape {
  int blocks, width, heads, groups, inner, vocabulary, length;
};
constexpr ModelShape kSmolLm2{30, 576, 9, 3, 1536, 49152, 8192};
constexpr ModelShape kSmall{2, 64, 2, 1, 128, 256, 512};

HarmonicGraph made_graph(const ModelShape& shape) {
  std::string text = format(
      "harmonic model {{ axis T <= {}; producer input_ids {{T}} int64; consumer logits; layer "
      "hidden.0 embedding(rows={}, width={}); layer norm rms_norm(eps=1e-5); layer head linear({}, "
      "bias=false, tie=hidden.0.weight);\n",
      shape.length, shape.vocabulary, shape.width, shape.vocabulary);
  std::string flows = "cycle { input_ids -> hidden.0;\n";
  for (int i = 1; i <= shape.blocks; ++i) {
    text += format(
        "layer b{0}.norm rms_norm(eps=1e-5); layer b{0}.attention attention(heads={1}, "
        "kv_heads={2}, head_dim={3}, causal=true, separate=true, bias=false, out_bias=false, "
        "rope=llama, rope_theta=100000); layer b{0}.sum add; layer b{0}.post rms_norm(eps=1e-5);\n"
        "layer b{0}.gate linear({4}, bias=false); layer b{0}.up linear({4}, bias=false); layer "
        "b{0}.product mul; layer b{0}.down linear({5}, bias=false); layer hidden.{0} add;\n",
        i, shape.heads, shape.groups, shape.width / shape.heads, shape.inner, shape.width);
    flows += format(
        "hidden.{1} -> b{0}.norm -> b{0}.attention; hidden.{1}, b{0}.attention -> b{0}.sum -> "
        "b{0}.post -(silu)-> b{0}.gate; b{0}.post -> b{0}.up;\nb{0}.gate, b{0}.up -> b{0}.product "
        "-> b{0}.down; b{0}.sum, b{0}.down -> hidden.{0};\n",
        i, i - 1);
  }
  return parse_harp(text + flows +
                    format("hidden.{} -> norm -> head -> logits; }} }}\n", shape.blocks));
}

WeightSource drawn_weights(const HarmonicGraph& graph) {
  torch::manual_seed(1);
  std::map<std::string, Tensor> all;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& parameter : graph.layer_shape(i).parameters) {
      if (!parameter.tied_to.empty()) continue;
      Tensor values = Tensor::zeros(parameter.shape);
      const std::span<float> to = values.mutable_values<float>();
      at::Tensor view =
          at::from_blob(to.data(), {static_cast<std::int64_t>(to.size())}, at::kFloat);
      view.normal_(parameter.shape.size() == 1 ? 1.0 : 0.0, 0.02);
      all.emplace(parameter_name(graph.layers()[i], parameter), std::move(values));
    }
  }
  WeightSource source;
  source.hold(std::move(all));
  return source;
}

struct Setup {
  bool gpu = false;
  std::int64_t prompt = 16;
  std::int64_t tokens = 256;
  int rounds = 5;
  ModelShape shape = kSmolLm2;
};

/// A model and the generator over it.
class Model {
 public:
  Model(const Setup& setup, const HarmonicGraph& graph, const WeightSource& weights,
        bool deterministic)
      : setup_(setup) {
    TorchTokenOptions torch;
    torch.device = setup.gpu ? Device{DeviceKind::kCuda, 0} : Device{};
    torch.numbers = setup.gpu ? DType::kBFloat16 : DType::kFloat32;
    torch.deterministic = deterministic;
    TokenPartsOptions parts;
    parts.make_stage = [torch](const HarmonicGraph& own, const WeightSource& source,
                               const TokenStageOptions& options) {
      return make_torch_token_stage(own, source, options, torch);
    };
    if (!setup.gpu) parts.cache_bytes = 1 << 22;
    pipeline_ = make_local_pipeline(graph, weights, parts);
    generator_ = std::make_unique<Generator>(*pipeline_, GeneratorOptions{});
  }

  /// Seconds for a step that has a token of each sequence, once all of them decode.
  double step_seconds(std::size_t sequences) {
    begin(sequences);
    for (int i = 0; i < 8; ++i) generator_->advance();
    const auto before = generator_->figures();
    const bench::Cost cost = bench::measured([&] {
      for (std::int64_t i = 0; i + 16 < setup_.tokens; ++i) generator_->advance();
    });
    const auto after = generator_->figures();
    while (!generator_->idle()) generator_->advance();
    return cost.wall / static_cast<double>(after.steps - before.steps);
  }

  void profile(std::size_t sequences) {
    begin(sequences);
    for (int i = 0; i < 12; ++i) generator_->advance();
    bench::print_kernels(format("{} sequences", sequences), 32, [&] { generator_->advance(); });
    while (!generator_->idle()) generator_->advance();
  }

  const TokenLimits& limits() const { return pipeline_->limits(); }

 private:
  void begin(std::size_t sequences) {
    for (std::size_t i = 0; i < sequences; ++i) {
      GenerationRequest request;
      Random random(i + 1, "prompt");
      for (std::int64_t k = 0; k < setup_.prompt; ++k) {
        request.prompt.push_back(static_cast<std::int64_t>(
            random.below(static_cast<std::uint64_t>(setup_.shape.vocabulary))));
      }
      request.sampling.temperature = 0;
      request.max_tokens = setup_.tokens;
      generator_->add(std::move(request));
    }
  }

  const Setup& setup_;
  TokenPipelinePtr pipeline_;
  std::unique_ptr<Generator> generator_;
};

double copied_bytes_per_second() {
  const at::Tensor from =
      at::zeros({std::int64_t{1} << 30}, at::device(at::kCUDA).dtype(at::kByte));
  const at::Tensor to = at::empty_like(from);
  std::vector<double> rates;
  for (int i = 0; i < 8; ++i) {
    torch::cuda::synchronize();
    const bench::Cost cost = bench::measured([&] {
      to.copy_(from);
      torch::cuda::synchronize();
    });
    rates.push_back(2.0 * static_cast<double>(from.nbytes()) / cost.wall);
  }
  return bench::median(rates);
}

std::string rate_text(double rate) { return format("{:.0f} tokens/s", rate); }

bool compare(const Setup& setup, Model& model, Model& steady, std::size_t sequences,
             bench::LinePeer* peer) {
  const double bar = sequences == 1 ? 600 : 4000, goal = sequences == 1 ? 2000 : 12000;
  const auto count = static_cast<double>(sequences);
  for (Model* const each : {&model, &steady}) (void)each->step_seconds(sequences);  // warms up
  std::vector<double> ours, repeated, ratios;
  for (int round = 0; round < setup.rounds; ++round) {
    ours.push_back(count / model.step_seconds(sequences));
    repeated.push_back(count / steady.step_seconds(sequences));
    ratios.push_back(repeated.back() / ours.back());
  }
  const double rate = bench::median(ours);
  const std::string name = format("SmolLM2-135M's shape, {} sequence{}", sequences,
                                  sequences == 1 ? "" : "s at the same time");
  if (!setup.gpu) {
    return bench::row(name + ", a small model on the CPU (no GPU: not the figure)", rate_text(rate),
                      rate_text(bench::median(repeated)), bench::median(ratios), "");
  }
  bool good = bench::row(name + ", bf16, over what was asked for", rate_text(rate), rate_text(bar),
                         rate / bar, ">= 1");
  bench::row(name + ", bf16, over the next goal", rate_text(rate), rate_text(goal), rate / goal,
             "");
  bench::row(name + ", reproducible over fast", rate_text(bench::median(repeated)), rate_text(rate),
             bench::median(ratios), "");
  const double length = static_cast<double>(setup.prompt) + 0.5 * static_cast<double>(setup.tokens);
  const double bytes = static_cast<double>(model.limits().weight_bytes) +
                       count * length * static_cast<double>(model.limits().token_bytes);
  const double speed = copied_bytes_per_second(), limit = count * speed / bytes;
  bench::row(format("{}, over the memory's limit ({:.1f} MB a step at {:.2f} TB/s)", name,
                    1e-6 * bytes, 1e-12 * speed),
             rate_text(rate), rate_text(limit), rate / limit, "");
  if (peer == nullptr) return good;
  const auto theirs = peer->ask(format("{} {} {}", sequences, setup.prompt, setup.tokens));
  if (!theirs) {
    std::printf("%s, over transformers: %s\n", name.c_str(), peer->failure().c_str());
    return good;
  }
  return bench::row(name + ", over transformers' eager loop", rate_text(rate),
                    rate_text(std::stod(*theirs)), rate / std::stod(*theirs), ">= 10") &&
         good;
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  const bool check = bench::has_flag(argc, argv, "--check");
  const bool is_short = bench::has_flag(argc, argv, "--short");
  setup.gpu = cuda_available();
  const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
  if (!setup.gpu && required != nullptr && std::string_view(required) == "1") {
    std::fprintf(stderr, "generation_gpu: no GPU answers\n");
    return 1;
  }
  if (is_short) setup.rounds = 1;
  if (!setup.gpu) {
    setup.shape = kSmall;
    setup.rounds = 1;
    setup.tokens = 24;
  }
  const HarmonicGraph graph = made_graph(setup.shape);
  const WeightSource weights = drawn_weights(graph);
  Model model(setup, graph, weights, false), steady(setup, graph, weights, true);
  if (setup.gpu && bench::has_flag(argc, argv, "--kernels")) {
    for (const std::size_t sequences : {1, 8}) model.profile(sequences);
    return 0;
  }
  std::printf("name | ours | reference | ratio | bar\n");
  std::unique_ptr<bench::LinePeer> peer;
  if (setup.gpu && !is_short) {
    peer = std::make_unique<bench::LinePeer>(
        std::vector<std::string>{"python3", HARMONICS_TRANSFORMERS_PEER},
        std::vector<std::string>{});
  }
  bool good = true;
  for (const std::size_t sequences : {1, 8}) {
    good &= compare(setup, model, steady, sequences, peer.get());
  }
  return check && !good ? 1 : 0;
}
