// PartProver: the arithmetic of one part of an int8 network, and its proofs (private to proven).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <harmonics/proven/proofs.h>

namespace harmonics::inline in_proven {

using NetworkPtr = std::shared_ptr<const Int8Network>;

/// Layers first to last of a network, both in it.
struct PartLayers {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// The network that a part of these layers proves: its own, and, where another part follows, one
/// that hands on each number as it is, so that what the last own layer gives is scaled in the
/// proof.
[[nodiscard]] Int8Network part_network(const Int8Network& network, PartLayers layers);

class PartProver : public StageProver {
 public:
  PartProver(NetworkPtr network, PartLayers layers)
      : network_(std::move(network)), layers_(layers) {}

  /// Computes a batch of the float rows that enter the network; only in its first part.
  void compute_rows(const Tensor& rows);
  /// The same of what the part before sent, which was checked.
  void compute_entering(const Tensor& entering);

  [[nodiscard]] const Tensor& made() const override { return made_; }
  [[nodiscard]] bool is_first() const { return layers_.first == 0; }
  [[nodiscard]] bool is_last() const { return layers_.last + 1 == network_->layers.size(); }

 protected:
  /// The first layer's inputs, constants included, of a tensor of the part before. One that is not
  /// of its shape or range is a CustodyError.
  [[nodiscard]] virtual std::vector<std::int8_t> input_of(const Tensor& entering) const = 0;
  /// Gives what leaves.
  [[nodiscard]] virtual Tensor computed(std::vector<std::int8_t> input) = 0;
  [[nodiscard]] const Int8Network& network() const { return *network_; }
  [[nodiscard]] PartLayers layers() const { return layers_; }

 private:
  const NetworkPtr network_;
  const PartLayers layers_;
  Tensor made_;
};

/// Of ProofKind::kParts and kLayers. A part that cannot be proven is an Error that says why.
[[nodiscard]] std::unique_ptr<PartProver> make_network_prover(NetworkPtr network,
                                                              PartLayers layers);
[[nodiscard]] std::unique_ptr<PartProver> make_layer_prover(NetworkPtr network, PartLayers layers);

}  // namespace harmonics::inline in_proven
