// Samples per second of imported models on one thread beside onnxruntime, which runs the ONNX file
// that PyTorch's exporter writes of the same model (reference/onnxruntime_peer.py). Rounds of both
// take turns, each measured in its own CPU time; the outputs are compared before anything is timed.
#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/models/import_model.h>
#include <harmonics/runtime/stage.h>

#include "reference/line_peer.h"
#include "rounds.h"

namespace {

using namespace harmonics;
namespace fs = std::filesystem;

struct Case {
  const char* title;
  const char* name;  ///< As the peer knows it.
  const char* output;
  std::int64_t batch;
  std::int64_t length;  ///< Of tokens; 0 for images.
  const char* bar;
};

/// How much of the largest number of the reference an output may be off.
constexpr double kAgreement = 1e-4;

Tensor rows_of(const fs::path& file, std::int64_t batch) {
  const IndexedProducerPtr source = open_producer("npy:" + file.string());
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < batch; ++i) rows.push_back(i);
  Shape shape = source->sample_spec().shape;
  shape.insert(shape.begin(), batch);
  Tensor all = Tensor::zeros(shape, source->sample_spec().dtype);
  source->read(rows, all.mutable_bytes());
  return all;
}

double difference(const Tensor& ours, const Tensor& theirs) {
  const std::span<const float> a = ours.values<float>(), b = theirs.values<float>();
  if (a.size() != b.size()) return INFINITY;
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - b[i]));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return worst / largest;
}

/// Floating point operations per second of a large product of matrices: what one core gives at
/// best.
double matmul_rate() {
  const std::int64_t n = 1024;
  const at::Tensor a = at::randn({n, n}), b = at::randn({n, n});
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    const double cpu = bench::measured([&] { at::mm(a, b); }).cpu;
    rates.push_back(2.0 * static_cast<double>(n * n * n) / cpu);
  }
  return bench::median(rates);
}

double flops_of(const HarmonicGraph& graph) {
  double sum = 0;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) sum += graph.layer_shape(i).flops;
  return sum;
}

bool compare(const Case& test, bench::LinePeer& peer, const fs::path& folder, int rounds) {
  const auto source = peer.ask(format("case {} {}", test.name, test.batch));
  if (!source) {
    std::printf("%s: %s\n", test.title, peer.failure().c_str());
    return true;
  }
  const ImportedModel model = import_model(*source, {.length = test.length});
  RuntimeOptions options;
  options.threads = 1;
  Stage stage(model.graph, options);
  stage->load_parameters([&](const std::string& name) { return model.weights.read(name); });
  NamedTensors inputs;
  for (const ProducerNode& node : model.graph.producers()) {  // all but what only training takes
    const fs::path file = folder / format("{}.{}.npy", test.name, node.name);
    if (fs::exists(file)) inputs.emplace(node.name, rows_of(file, test.batch));
  }
  const NamedTensors outputs = stage->infer(inputs);
  const double off = difference(outputs.at(test.output),
                                rows_of(folder / format("{}.npy", test.name), test.batch));
  if (!(off <= kAgreement)) {
    fail(ErrorCode::kInternal, "{}: the outputs differ by {} of the largest", test.title, off);
  }
  std::vector<double> ours, theirs, ratios, limits;
  for (int i = 0; i < rounds; ++i) {
    const auto answer = peer.ask("round");
    if (!answer) fail(ErrorCode::kUnavailable, "{}: {}", test.title, peer.failure());
    theirs.push_back(std::strtod(answer->c_str(), nullptr));
    ours.push_back(bench::measured([&] { static_cast<void>(stage->infer(inputs)); }).cpu);
    ratios.push_back(theirs.back() / ours.back());
    limits.push_back(matmul_rate());
  }
  const auto rate = [&](const std::vector<double>& times) {
    return format("{:.2f} samples/s", static_cast<double>(test.batch) / bench::median(times));
  };
  const double done = flops_of(model.graph) * static_cast<double>(test.batch) / bench::median(ours);
  const double limit = bench::median(limits);
  const bool kept =
      bench::row(test.title, rate(ours), rate(theirs), bench::median(ratios), test.bar);
  bench::row(format("{}: beside a product of matrices", test.title),
             format("{:.1f} GFLOP/s", done / 1e9), format("{:.1f} GFLOP/s", limit / 1e9),
             done / limit, "");
  return kept;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  at::set_num_threads(1);
  const fs::path build = fs::canonical("/proc/self/exe").parent_path().parent_path();
  const fs::path folder = build / "bench-models";
  bench::LinePeer peer({"python3", HARMONICS_ONNXRUNTIME_PEER, folder.string()},
                       {format("HARMONICS_BINARY_DIR={}", build.string())});
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const Case& test : std::initializer_list<Case>{
           {"ResNet-50, batch 1", "resnet50", "output", 1, 0, ">= 0.8"},
           {"ResNet-50, batch 8", "resnet50", "output", 8, 0, ">= 0.8"},
           {"ViT-Base, batch 1", "vit_base", "logits", 1, 0, ">= 0.8"},
           {"ViT-Base, batch 8", "vit_base", "logits", 8, 0, ">= 0.8"},
           {"MiniLM, 128 tokens, batch 1", "minilm", "last_hidden_state", 1, 128, ">= 0.8"},
           {"MiniLM, 128 tokens, batch 8", "minilm", "last_hidden_state", 8, 128, ">= 0.8"}}) {
    if (short_run && test.batch > 1) continue;
    good &= compare(test, peer, folder, short_run ? 1 : test.batch > 1 ? 7 : 15);
  }
  return check && !good ? 1 : 0;
}
