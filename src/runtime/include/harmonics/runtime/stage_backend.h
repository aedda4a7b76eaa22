// StageBackend: what computes a stage. One implementation per kind of device.
//
// The contract suite (backend_contract_test.cc) holds all of them to the answers of the CPU. A new
// backend implements this interface in files of its own, gets a line in make_stage_backend
// (stage.cc) and a line in that suite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

class StageProver;

/// Gives the values of a parameter by its full name.
using ParameterReader = std::function<Tensor(const std::string& name)>;

/// Which slice of which batch is being computed. Chance and loss depend on these numbers alone.
struct MicroBatch {
  std::uint64_t step = 0;
  /// Number within the batch; also the key under which a stage keeps it until its backward pass.
  std::uint32_t index = 0;
  /// Position of its first row in the batch.
  std::int64_t first_sample = 0;
  /// Rows of the whole batch: every sample weighs 1/batch_samples in the loss.
  std::int64_t batch_samples = 0;
  /// Nobody wants to know anything of its forward pass before the batch has gone back: outputs may
  /// stay on the device, and what the taps say may come from late_taps().
  bool only_learns = false;
};

/// What the taps of a stage saw. Sums, so that reports of slices and parts add up.
struct TapReport {
  double loss_sum = 0;
  /// Predictions judged right or wrong (cross_entropy taps) and how many were right.
  std::int64_t judged = 0;
  std::int64_t correct = 0;

  TapReport& operator+=(const TapReport& other);
};

/// Hears that the gradient of a parameter is complete. The tensor looks into the stage's memory,
/// which the stage does not use any more once take_gradients has replaced the gradient.
using GradientListener = std::function<void(const std::string& parameter, const Tensor& gradient)>;

/// One optimiser update.
struct Update {
  double learning_rate = 0;
  /// Every gradient is multiplied by this first (clipping, loss scaling).
  double gradient_factor = 1;
  /// How many updates came before this one.
  std::int64_t updates_before = 0;
};

/// Holds one graph, its weights and optimiser state on its device. One thread at a time; several
/// backends may compute in several threads. Start weights depend on seed and parameter name alone.
/// Inputs of another shape or dtype than the graph says, or missing ones, are an Error that names
/// them. Tensors go in from main memory or from the device and come out where the next reader takes
/// them.
class StageBackend {
 public:
  virtual ~StageBackend() = default;

  [[nodiscard]] virtual const HarmonicGraph& graph() const = 0;
  /// "cpu", "cuda:0", "opencl:0": where it computes, for messages.
  [[nodiscard]] virtual std::string place() const = 0;
  /// Where tensors lie that go on to another part.
  [[nodiscard]] virtual Device device() const { return {}; }
  /// Operations that this backend lacks and runs on the CPU, such as "attention"; in alphabetical
  /// order, each once.
  [[nodiscard]] virtual std::vector<std::string> fallbacks() const { return {}; }
  /// Full precision, bf16 or fp16, after `auto` has been decided.
  [[nodiscard]] virtual PrecisionPolicy precision() const = 0;
  /// What proves the stage's outputs (stage_prover.h); null: they cannot be proven.
  [[nodiscard]] virtual StageProver* prover() const { return nullptr; }

  /// Outputs of all consumers in evaluation mode; targets of taps are not needed.
  [[nodiscard]] virtual NamedTensors infer(const NamedTensors& inputs) = 0;
  /// The same, and what the taps say.
  [[nodiscard]] virtual NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) = 0;

  /// Training: computes a micro-batch and keeps what its backward pass needs.
  [[nodiscard]] virtual NamedTensors forward(const MicroBatch& micro_batch,
                                             const NamedTensors& inputs, TapReport& report) = 0;
  /// By number, the taps of micro-batches whose forward pass left them for later: a device is not
  /// waited for while it still has to be told what to do next. Each is told once.
  [[nodiscard]] virtual std::map<std::uint32_t, TapReport> late_taps() { return {}; }
  /// Adds this micro-batch's gradients to those of the parameters. `gradients` holds, for every
  /// consumer with gradient slots, one tensor {slots, batch, …}; the answer holds the same for
  /// every producer with gradient slots. The losses are multiplied by `loss_scale`.
  [[nodiscard]] virtual NamedTensors backward(const MicroBatch& micro_batch,
                                              const NamedTensors& gradients,
                                              double loss_scale = 1.0) = 0;

  /// Sum of squares of each parameter's gradient in float64, by parameter name.
  [[nodiscard]] virtual std::map<std::string, double> gradient_square_sums() const = 0;
  /// Changes the weights and sets the gradients to zero.
  virtual void update(const Update& update) = 0;
  /// Sets the gradients to zero and forgets micro-batches in flight.
  virtual void reset() = 0;
  /// The first layer (or producer) whose values in a micro-batch in flight are not finite, or "".
  [[nodiscard]] virtual std::string first_non_finite() = 0;

  /// What each layer gave in a micro-batch in flight, in graph order; they share the stage's
  /// memory. As it stands, an Error (kUnimplemented) that says so.
  [[nodiscard]] virtual std::vector<std::pair<std::string, Tensor>> layer_values(
      std::uint32_t micro_batch);

  /// All parameters and buffers, by full name. They share the stage's memory: use or copy them
  /// before the next update.
  [[nodiscard]] virtual NamedTensors parameters() const = 0;
  /// Optimiser state by "<parameter>.<slot>", likewise.
  [[nodiscard]] virtual NamedTensors optimizer_state() const = 0;
  /// Copies values in. Names that this stage does not own are ignored; a missing parameter (or,
  /// once updates were made, a missing optimiser slot) or another shape is an Error that names it.
  virtual void set_parameters(const NamedTensors& values) = 0;
  /// As it stands, this reads all of them and sets them together.
  virtual void load_parameters(const ParameterReader& read);
  virtual void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) = 0;
  /// From now on learns by this rule, with the chance of this seed. The optimiser's state is
  /// dropped; its rate is that of each update.
  virtual void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) = 0;
  /// Copies of the gradients by parameter name; zero or absent after update() or reset(). A
  /// parameter that no loss has reached yet has none.
  [[nodiscard]] virtual NamedTensors gradients() const = 0;
  /// Replaces the gradients of these parameters. Another shape is an Error that names it; names
  /// that this stage does not train are ignored. A backend that cannot take gradients from
  /// elsewhere leaves this as it is: an Error (kUnimplemented) that says so.
  virtual void set_gradients(const NamedTensors& values);
  /// The same without a copy where the stage can use their memory: whoever gives them leaves them
  /// alone until the gradients were replaced again. As it stands, this copies.
  virtual void take_gradients(const NamedTensors& values) { set_gradients(values); }
  /// While a micro-batch of this number goes back, its gradients being the last of a batch, calls
  /// `listener` for each parameter as soon as its gradient is complete, on the thread that
  /// computes. Null: no more. Parameters that nobody was told of are complete when the pass is
  /// over; as it stands, that is all of them.
  virtual void listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener);
  /// Copies of what is saved but not trained, such as running statistics. As they stand, these two
  /// go through all parameters.
  [[nodiscard]] virtual NamedTensors buffers() const;
  /// Replaces those of these names, likewise.
  virtual void set_buffers(const NamedTensors& values);
};

}  // namespace harmonics::inline in_runtime
