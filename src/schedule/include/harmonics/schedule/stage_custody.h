// StageCustody: what one part of a secure run signs and checks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/custody/custody_log.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/runtime/stage_prover.h>

namespace harmonics::inline in_schedule {

/// The stage that signs for what leaves the graph in a part, and the boundary over which it goes.
[[nodiscard]] std::string reader_of(const std::string& stage);
[[nodiscard]] std::string output_boundary(const std::string& stage, const std::string& consumer);

/// The log of a part and, where tensors leave the graph in it, that of the one who reads them. A
/// check that fails is a CustodyError that names the link, after which it is of no further use.
/// Tensors may lie on any device. One thread at a time.
class StageCustody {
 public:
  /// `reader` is null for a part without outputs. Of `options`, weights are announced every
  /// `weights_every` steps, besides the first time (0: not by `begin_step`), and layers are noted
  /// where they are to be.
  StageCustody(std::unique_ptr<CustodyLog> log, std::unique_ptr<CustodyLog> reader,
               const SecureOptions& options);

  /// Announces the weights, if they are due, that a step of learning begins with.
  void begin_step(const Stage& stage, std::uint64_t step);
  /// The same for a batch that changes no weights.
  void begin_batch(const Stage& stage, std::uint64_t step);
  /// Data that enters the part in a micro-batch; producers whose data came over a boundary, or that
  /// the part does not have, are left out.
  void note_data(const HarmonicGraph& part, std::uint32_t micro_batch, const NamedTensors& data);
  /// What the layers gave in a micro-batch that has just gone forward to learn; nothing where
  /// layers are not signed. A backend that cannot tell is an Error.
  void note_layers(Stage& stage, const MicroBatch& micro_batch);
  /// Links and signs a tensor that leaves over a boundary; gives what must travel with it and with
  /// `along`, which is signed for the way.
  [[nodiscard]] Bytes seal(const Passage& passage, const Tensor& tensor, ByteSpan along);
  /// Checks a tensor that came.
  void check(const Passage& due, const Tensor& tensor, ByteSpan seal, ByteSpan along);
  /// The same of what a stage that proves has just made. `tensor` becomes what travels in its
  /// place: it holds the proof too (proof_parcel.h).
  [[nodiscard]] Bytes seal_proven(const Passage& passage, Tensor& tensor, ByteSpan along);
  /// Checks what travelled and the proof in it; `tensor` becomes the tensor again.
  void check_proven(const Passage& due, Tensor& tensor, ByteSpan seal, ByteSpan along);
  /// Whether the stage that the last batch began with proves what it makes.
  [[nodiscard]] bool proves() const { return prover_ != nullptr; }
  /// Links, signs and receives what leaves the graph here, by consumer.
  void give_out(const MicroBatch& micro_batch, const NamedTensors& outputs);
  /// Signs the heads of a step.
  void end_step();

  /// The weights were replaced from outside: they are announced before the next tensor leaves.
  void forget_weights() { weights_known_ = false; }
  void announce(const Stage& stage, std::uint64_t step);
  /// Signs that the part is done.
  void close();

  [[nodiscard]] CustodyLog& log() { return *log_; }
  [[nodiscard]] const CustodyLog& log() const { return *log_; }
  /// Null for a part without outputs.
  [[nodiscard]] CustodyLog* reader() const { return reader_.get(); }

 private:
  void give_out_proven(const Passage& passage);

  std::unique_ptr<CustodyLog> log_;
  std::unique_ptr<CustodyLog> reader_;
  const std::int64_t weights_every_;
  const bool signs_layers_;
  bool weights_known_ = true;
  StageProver* prover_ = nullptr;  // of the stage
};

}  // namespace harmonics::inline in_schedule
