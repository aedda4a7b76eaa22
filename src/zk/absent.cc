// What stands in for the proofs where libsodium was left out.
#include <harmonics/base/error.h>
#include <harmonics/zk/network.h>
#include <harmonics/zk/zk.h>

namespace harmonics::inline in_zk {
namespace {

[[noreturn]] void fail_absent() {
  fail(ErrorCode::kUnimplemented,
       "zero-knowledge proofs were left out of this build: install libsodium and configure with "
       "-DHARMONICS_WITH_ZK=ON");
}

}  // namespace

BlindingSeed new_blinding_seed() { fail_absent(); }
Bytes commit_weights(const LinearShape&, std::span<const std::int8_t>, const BlindingSeed&) {
  fail_absent();
}
Bytes prove_stage(const LinearShape&, const StageSecrets&, ByteSpan, const Digest&) {
  fail_absent();
}
LinearShape verify_stage_proof(ByteSpan, ByteSpan, const Digest&) { fail_absent(); }
void check_link_proof(const Link&, ByteSpan, ByteSpan) { fail_absent(); }
void check_output_rows(ByteSpan, std::span<const std::int32_t>, const BlindingSeed&,
                       std::span<const std::uint32_t>) {
  fail_absent();
}
void check_input_rows(ByteSpan, std::span<const std::int8_t>, const BlindingSeed&,
                      std::span<const std::uint32_t>) {
  fail_absent();
}

Bytes commit_network(const NetworkLayers&, std::span<const LayerParameters>, const BlindingSeed&) {
  fail_absent();
}
NetworkLayers committed_layers(ByteSpan) { fail_absent(); }
Bytes prove_network(const NetworkSecrets&, const NetworkInput&, const Digest&) { fail_absent(); }
NetworkClaim read_network_claim(ByteSpan, ByteSpan) { fail_absent(); }
NetworkClaim verify_network_proof(ByteSpan, ByteSpan, const Digest&) { fail_absent(); }
std::vector<NetworkClaim> verify_network_proofs(std::span<const ContextProof>, ByteSpan) {
  fail_absent();
}
void check_network_input(ByteSpan, ByteSpan, std::span<const std::int8_t>, const BlindingSeed&) {
  fail_absent();
}
bool is_network_record(ByteSpan) { fail_absent(); }

}  // namespace harmonics::inline in_zk
