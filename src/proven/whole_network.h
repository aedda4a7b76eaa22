// The two ends of a network that is proven whole: one part computes all of it and shows its outputs
// alone (private to proven).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/custody/custody_log.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_proven {

/// The part that computes. One thread; owns neither network nor transport.
class NetworkSender {
 public:
  NetworkSender(const Int8Network& network, std::string boundary, CustodyLog& log, Transport& end,
                Nanoseconds patience);

  /// Tells the receiver what the network is committed to as, and the chain.
  void announce();
  /// Computes, proves and sends. `input` is that of int8_input.
  void send(std::uint64_t step, const std::vector<std::int8_t>& input);

 private:
  const Int8Network& network_;
  const std::string boundary_;
  CustodyLog& log_;
  Transport& end_;
  const Nanoseconds patience_;
  const BlindingSeed seed_ = new_blinding_seed();
  Bytes commitment_;
};

/// The end that takes the outputs: lets nothing through that does not verify. It knows no weights.
class NetworkReceiver {
 public:
  NetworkReceiver(NetworkLayers layers, std::string boundary, CustodyLog& log, Transport& end,
                  Nanoseconds patience);

  /// The last layer's sums for `batch` samples.
  [[nodiscard]] std::vector<std::int32_t> receive(std::uint64_t step, std::uint32_t batch);

 private:
  const NetworkLayers layers_;
  const std::string boundary_;
  CustodyLog& log_;
  Transport& end_;
  const Nanoseconds patience_;
  Bytes commitment_;
};

}  // namespace harmonics::inline in_proven
