// A step that is recorded keeps nobody waiting for the GPU until it is told what its taps say.
#include <gtest/gtest.h>
#ifdef HARMONICS_TEST_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {
namespace {

#ifdef HARMONICS_TEST_HAS_CUDA
void let_waiting_throw(bool throws) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(throws ? SyncDebugMode::L_ERROR
                                                        : SyncDebugMode::L_DISABLED);
}
#else
void let_waiting_throw(bool /*throws*/) {}
#endif

/// While it lives, whatever of libtorch waits for the GPU throws.
class NoWaiting {
 public:
  NoWaiting() { let_waiting_throw(true); }
  ~NoWaiting() { let_waiting_throw(false); }
  NoWaiting(const NoWaiting&) = delete;
  NoWaiting& operator=(const NoWaiting&) = delete;
};

NamedTensors plain_batch(const HarmonicGraph& graph) {
  NamedTensors batch;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 16);
    Tensor& tensor = batch[node.name] = Tensor::zeros(shape, node.dtype);
    if (node.dtype != DType::kFloat32) continue;
    for (auto& value : tensor.mutable_values<float>()) value = 1;
  }
  return batch;
}

TEST(Waiting, AStepThatIsRecordedNeverWaits) {
  if (!cuda_available()) {
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU answers";
    GTEST_SKIP() << "no GPU answers";
  }
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    RuntimeOptions options;
    options.backend = Backend::GPU;
    options.strict = true;
    options.precision = PrecisionPolicy::kBf16;
    Stage stage(graph, options);
    const NamedTensors batch = plain_batch(graph);
    std::map<std::uint32_t, TapReport> late;
    for (std::int64_t step = 0; step < 8; ++step) {
      const MicroBatch whole{static_cast<std::uint64_t>(step), 0, 0, 16, true};
      TapReport taps;
      std::optional<NoWaiting> guard;
      if (step >= 5) guard.emplace();  // until then it is rehearsed and recorded, which waits
      EXPECT_NO_THROW({
        static_cast<void>(stage->forward(whole, batch, taps));
        static_cast<void>(stage->backward(whole, {}));
        late = stage->late_taps();
        stage->update({0, 1, step});  // what is learnt by heart has no loss
      }) << name;
      if (step < 5) continue;
      EXPECT_EQ(taps.loss_sum, 0) << name;
      ASSERT_EQ(late.size(), 1U) << name;
      EXPECT_GT(late.at(0).loss_sum, 0) << name;
    }
    EXPECT_TRUE(stage->late_taps().empty()) << "each is told once";
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
