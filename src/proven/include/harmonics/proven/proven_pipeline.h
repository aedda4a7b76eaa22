// ProvenPipeline: inference of an int8 network in parts, each of which proves what it computed
// without showing it (docs/guides/custody.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/custody/keys.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_proven {

/// Rows of each tensor that its receiver compares with the proof's commitments.
inline constexpr std::size_t kSpotCheckedRows = 4;

struct ProvenOptions {
  /// One key per part and one for the end that reads the outputs; or one key for all.
  std::vector<SigningKey> keys;
  /// The chain file, which must not exist yet.
  std::filesystem::path chain;
  /// Makes both ends of a boundary; not set: buses inside this process.
  std::function<std::pair<TransportPtr, TransportPtr>(const std::string& boundary)> connect;
  /// Every wait for a message ends after this.
  Nanoseconds patience = std::chrono::seconds(60);
  /// One part computes the network and proves it whole: nothing between input and outputs is shown
  /// to anyone. Else each layer is a part.
  bool whole = false;
};

/// One part per layer, "part0", "part1", …, and the end "output" that takes the last one's tensor.
/// A part applies relu and scaling to the sums it received, commits, multiplies, proves, and sends
/// sums, link and proof over the boundary; the receiver checks the link, the proof and some rows
/// before it uses the tensor. Proven whole there is "part0" alone, and the end checks that what it
/// takes is what the proof says. A check that fails is a CustodyError and ends the pipeline. One
/// thread: the parts take turns.
class ProvenPipeline {
 public:
  ProvenPipeline(Int8Network network, const ProvenOptions& options);
  ~ProvenPipeline();
  ProvenPipeline(const ProvenPipeline&) = delete;
  ProvenPipeline& operator=(const ProvenPipeline&) = delete;

  /// The outputs for float32 rows: the same bits as infer(network, rows).
  [[nodiscard]] Tensor infer(const Tensor& rows);
  /// Signs that all parts are done; nothing may follow. Without it the chain counts as truncated.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_proven
