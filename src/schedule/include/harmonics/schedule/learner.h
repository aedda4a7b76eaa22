// Learner: what holds the weights of a graph, or of some parts of it, and learns from bound data.
//
// CycleRuntime, DistributedScheduler, RemoteScheduler and ReplicaScheduler are learners: whoever
// conducts a run takes any of them.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <string>

#include <harmonics/base/exception_text.h>
#include <harmonics/data/producer.h>
#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_schedule {

/// One thread. What a kind of learner adds to these promises, or cannot do, its header says.
class Learner {
 public:
  virtual ~Learner() = default;

  /// Data that is read, or results that are written, in this process. A name that the graph does
  /// not have, or that is bound already, is an Error that lists what there is.
  virtual void bindProducer(const std::string& name, ProducerPtr producer) = 0;
  virtual void bindConsumer(const std::string& name, ConsumerPtr consumer) = 0;

  /// One cycle: pull a batch, compute, push to the bound consumers, learn where there is a tap.
  virtual StepReport step();
  /// `epochs` passes over the bound data.
  virtual FitReport fit(std::int64_t epochs, const FitOptions& options = {});
  /// Loss and accuracy over one pass of these producers, which must bind every producer.
  [[nodiscard]] Evaluation evaluate(const NamedProducers& producers);
  /// The consumers' outputs for these inputs (each with a leading batch axis), in evaluation mode.
  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs);
  /// Takes every batch of one pass over these producers through the graph in evaluation mode, as
  /// many at the same time as `options` says, and pushes what leaves the graph here to these
  /// consumers in the order of the data, each batch once; they are finished at the end of the data.
  /// The bits are those of `infer`, and no gradient and no state of the optimiser is made.
  ///
  /// The producers must bind every producer here that `infer` needs, and with `options.measure`
  /// those of the taps too; a consumer that is not bound is only shown to `on_batch`. Where parts
  /// are elsewhere all of them must call it, each with its own data and consumers; an Error ends it
  /// for all, and a new scheduler goes on from options.delivered.
  StreamReport stream(const NamedProducers& producers, const NamedConsumers& consumers,
                      const StreamOptions& options = {});

  /// Saves everything that training needs; whole or not at all. See checkpoint.h.
  void save_checkpoint(const std::filesystem::path& path) const;
  virtual void load_checkpoint(const std::filesystem::path& path);
  /// Goes on from the checkpoint, if there is one; false, with nothing changed, when there is none
  /// or the path is empty.
  virtual bool resume(const std::filesystem::path& path);
  /// Start weights from a safetensors file; `names` maps our names to the file's.
  virtual void load_weights(const std::filesystem::path& path,
                            const std::map<std::string, std::string>& names = {});

  /// Ends a secure run (docs/guides/custody.md): the chain gets the final weights and each part's
  /// closing head, and no step may follow. Destroying the learner does it too, unless a step
  /// failed. Does nothing otherwise.
  virtual void close();
  /// What the parts here signed last, a line each: run, part, number and digest of the head,
  /// signature. Empty before the first step and in a run that is not secure.
  [[nodiscard]] virtual std::string proof() const = 0;

  /// Parameters and buffers by name; they share the learner's memory.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] std::string weights_digest() const;
  [[nodiscard]] const TrainingProgress& progress() const;
  /// What conducts it, with everything built; what is still missing is an Error that names it. For
  /// schedulers and tests.
  [[nodiscard]] virtual Trainer& trainer() const = 0;

 protected:
  /// Runs `action` on the trainer; where other processes depend on it, its Error ends the run for
  /// all of them.
  template <typename Action>
  auto guarded(Action&& action) {
    Trainer& conductor = trainer();
    try {
      return action(conductor);
    } catch (const std::exception& error) {
      conductor.row().agreement().abandon(exception_text(error));
      throw;
    }
  }

  Learner() = default;
  Learner(Learner&&) = default;
  Learner& operator=(Learner&&) = default;
};

}  // namespace harmonics::inline in_schedule
