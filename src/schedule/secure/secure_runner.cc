#include "secure_runner.h"

#include <exception>
#include <utility>

namespace harmonics::inline in_schedule {
namespace {

class SecureRunner final : public BatchRunner {
 private:
  template <typename Action>
  auto guarded(Action&& action) {
    secure_.begin();
    try {
      return action();
    } catch (const std::exception& error) {
      secure_.spoil(error.what());
      throw;
    }
  }

 public:
  explicit SecureRunner(SecureRun& secure)
      : secure_(secure),
        inner_(make_sequential_runner([&secure](Stage& stage, const MicroBatch& micro_batch) {
          secure.part(0).note_layers(stage, micro_batch);
        })) {}

  SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override {
    return guarded([&] {
      const Stage& stage = stages.front();
      StageCustody& custody = secure_.part(0);
      custody.begin_step(stage, batch.micro_batches.front().step);
      for (const MicroBatch& micro_batch : batch.micro_batches) {
        custody.note_data(stage->graph(), micro_batch.index, batch.slices[micro_batch.index]);
      }
      SlicedBatch kept = batch;
      kept.keep_outputs = true;
      SliceResults results = inner_->run(stages, kept);
      if (!results.finite) {
        secure_.spoil("the loss was not finite");
        return results;
      }
      for (const MicroBatch& micro_batch : batch.micro_batches) {
        custody.give_out(micro_batch, results.outputs[micro_batch.index]);
      }
      custody.end_step();
      if (!batch.keep_outputs) results.outputs.clear();
      return results;
    });
  }

  std::vector<Computed> compute(std::span<Stage> stages, std::span<const NamedTensors> batches,
                                bool measure) override {
    return guarded([&] {
      const Stage& stage = stages.front();
      StageCustody& custody = secure_.part(0);
      custody.begin_batch(stage, 0);
      std::vector<Computed> all;
      for (std::uint32_t i = 0; i < batches.size(); ++i) {
        all.push_back(std::move(inner_->compute(stages, batches.subspan(i, 1), measure).front()));
        custody.note_data(stage->graph(), i, batches[i]);
        custody.give_out({computed_, i, 0, batch_rows(batches[i])}, all[i].outputs);
      }
      custody.end_step();
      ++computed_;
      return all;
    });
  }

  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override {
    inner_->for_each(stages, visit);
  }

 private:
  SecureRun& secure_;
  std::unique_ptr<BatchRunner> inner_;
  std::uint64_t computed_ = 0;  // calls so far: the steps of what only computes
};

}  // namespace

std::unique_ptr<BatchRunner> make_secure_runner(SecureRun& secure) {
  return std::make_unique<SecureRunner>(secure);
}

}  // namespace harmonics::inline in_schedule
