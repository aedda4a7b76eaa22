#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/parameter_client.h>
#include <harmonics/schedule/stage_row.h>

#include "replicas/replica_share.h"

namespace harmonics::inline in_schedule {

struct ParameterWorker::State {
  State(const HarmonicGraph& graph, const RuntimeOptions& given, ParameterClient ends)
      : options(given), row({graph}, {given}), client(std::move(ends)) {
    if (!given.reproducible) return;
    fail(ErrorCode::kUnimplemented,
         "a reproducible run has no parameter server, whose updates come in the order of arrival: "
         "leave out one of the two");
  }

  /// The gradients of these micro-batches, then none are left behind.
  TapReport push(const SlicedBatch& own, std::int64_t samples, std::int64_t batch_samples) {
    use_compute_threads(options.threads);
    TapReport taps;
    try {
      const SliceResults results = row.runner().run(row.stages(), own);
      for (const TapReport& one : results.taps) taps += one;
      if (!results.finite) {
        fail(ErrorCode::kFailedPrecondition, "the loss of worker {} is not finite at version {}",
             client.worker(), client.version());
      }
      NamedTensors gradients = row.stages().front()->gradients();
      for (const auto& [name, value] : client.parameters()) {
        // What no loss reaches has no gradient; the server wants one.
        if (!gradients.contains(name)) {
          gradients.emplace(name, Tensor::zeros(value.shape(), value.dtype()));
        }
      }
      client.push(gradients, samples, batch_samples);
    } catch (...) {
      row.stages().front()->reset();
      throw;
    }
    row.stages().front()->reset();
    return taps;
  }

  RuntimeOptions options;
  StageRow row;
  ParameterClient client;
};

ParameterWorker::ParameterWorker(const HarmonicGraph& graph, const RuntimeOptions& options,
                                 ParameterClient client)
    : state_(std::make_unique<State>(graph, options, std::move(client))) {}
ParameterWorker::~ParameterWorker() = default;
ParameterWorker::ParameterWorker(ParameterWorker&&) noexcept = default;
ParameterWorker& ParameterWorker::operator=(ParameterWorker&&) noexcept = default;

void ParameterWorker::load_weights(const std::filesystem::path& path) {
  in_schedule::load_weights(path, state_->row);
}

std::int64_t ParameterWorker::pull() {
  state_->client.pull();
  Stage& stage = state_->row.stages().front();
  NamedTensors all = stage->buffers();
  all.insert(state_->client.parameters().begin(), state_->client.parameters().end());
  stage->set_parameters(all);
  return state_->client.version();
}

TapReport ParameterWorker::push_share(const NamedTensors& batch) {
  const std::uint32_t workers = state_->client.workers();
  const std::int64_t rows = batch_rows(batch);
  const SlicedBatch whole =
      slice_batch(batch, rows, std::int64_t{state_->options.micro_batches} * workers,
                  static_cast<std::uint64_t>(state_->client.version()));
  const ReplicaShare share = replica_share(whole, state_->client.worker(), workers);
  const auto samples = std::llround(share.weight * static_cast<double>(rows));
  const TapReport taps = state_->push(slice_of(whole, share), samples, rows);
  return share.idle() ? TapReport{} : taps;
}

TapReport ParameterWorker::push_batch(const NamedTensors& batch) {
  const std::int64_t rows = batch_rows(batch);
  return state_->push(slice_batch(batch, rows, state_->options.micro_batches,
                                  static_cast<std::uint64_t>(state_->client.version())),
                      rows, rows);
}

ParameterClient& ParameterWorker::client() { return state_->client; }
NamedTensors ParameterWorker::parameters() const { return state_->row.parameters(); }

NamedTensors trained_parameters(const HarmonicGraph& graph, const RuntimeOptions& options,
                                const std::filesystem::path& weights) {
  StageRow row({graph}, {options});
  if (!weights.empty()) load_weights(weights, row);
  const Stage& stage = row.stages().front();
  NamedTensors trained;
  for (const auto& [name, value] : stage->parameters()) trained.emplace(name, cpu_tensor(value));
  for (const auto& [name, buffer] : stage->buffers()) trained.erase(name);
  return trained;
}

}  // namespace harmonics::inline in_schedule
