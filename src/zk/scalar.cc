// The one file of the proofs that knows libsodium.
#include "scalar.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>

#include "residue.h"

namespace harmonics::zk {
namespace {

// The order of the group, 2^252 + 27742317777372353535851937790883648493.
constexpr std::uint64_t kOrder[4] = {0x5812631a5cf5d3edULL, 0x14def9dea2f79cd6ULL, 0,
                                     0x1000000000000000ULL};

void start_sodium() {
  static const int ready = sodium_init();
  if (ready < 0) fail(ErrorCode::kUnavailable, "libsodium could not be started");
}

Scalar reduced(const std::uint8_t (&wide)[64]) {
  Scalar out;
  crypto_core_ristretto255_scalar_reduce(out.bytes.data(), wide);
  return out;
}

}  // namespace

Scalar operator+(const Scalar& a, const Scalar& b) {
  Scalar out;
  crypto_core_ristretto255_scalar_add(out.bytes.data(), a.bytes.data(), b.bytes.data());
  return out;
}
Scalar operator-(const Scalar& a, const Scalar& b) {
  Scalar out;
  crypto_core_ristretto255_scalar_sub(out.bytes.data(), a.bytes.data(), b.bytes.data());
  return out;
}
Scalar operator*(const Scalar& a, const Scalar& b) {
  Scalar out;
  crypto_core_ristretto255_scalar_mul(out.bytes.data(), a.bytes.data(), b.bytes.data());
  return out;
}
Scalar negative(const Scalar& a) { return Scalar{} - a; }

Scalar inverse(const Scalar& a) {
  Scalar out;
  if (crypto_core_ristretto255_scalar_invert(out.bytes.data(), a.bytes.data()) != 0) {
    fail(ErrorCode::kInvalidArgument, "zero has no inverse");
  }
  return out;
}

Scalar scalar_of(std::int64_t value) {
  Scalar out;
  const std::uint64_t size = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                                       : static_cast<std::uint64_t>(value);
  std::memcpy(out.bytes.data(), &size, sizeof(size));
  return value < 0 ? negative(out) : out;
}

const Residue& residue_square() {
  static const Residue square = [] {
    // 2^512 = 2^511 + 2^511, and 2^511 fits what is reduced here.
    std::uint8_t wide[64] = {};
    wide[63] = 0x80;
    Scalar half;
    crypto_core_ristretto255_scalar_reduce(half.bytes.data(), wide);
    const Scalar whole = half + half;
    Residue out;
    std::memcpy(out.limb, whole.bytes.data(), sizeof(out.limb));
    return out;
  }();
  return square;
}

bool is_canonical(const Scalar& scalar) {
  std::uint64_t words[4];
  std::memcpy(words, scalar.bytes.data(), sizeof(words));
  for (int i = 3; i >= 0; --i) {
    if (words[i] != kOrder[i]) return words[i] < kOrder[i];
  }
  return false;
}

void fill_secret(std::span<std::byte> out) {
  start_sodium();
  randombytes_buf(out.data(), out.size());
}

Scalar random_scalar() { return random_scalars(1).front(); }

Scalars random_scalars(std::size_t count) {
  start_sodium();
  Digest seed;
  randombytes_buf(seed.data(), seed.size());
  Scalars out = expanded(seed, count);
  sodium_memzero(seed.data(), seed.size());
  return out;
}

Scalars expanded(const Digest& seed, std::size_t count) {
  start_sodium();
  constexpr std::size_t kBatch = 64;
  const auto* key = reinterpret_cast<const unsigned char*>(seed.data());
  const unsigned char nonce[crypto_stream_chacha20_NONCEBYTES] = {};
  const std::uint8_t zeros[kBatch * 64] = {};
  std::uint8_t stream[kBatch * 64];
  Scalars out(count);
  for (std::size_t at = 0; at < count; at += kBatch) {
    // A block of the stream has 64 bytes: one per scalar.
    crypto_stream_chacha20_xor_ic(stream, zeros, sizeof(stream), nonce, at, key);
    for (std::size_t i = at; i < std::min(count, at + kBatch); ++i) {
      std::uint8_t wide[64];
      std::memcpy(wide, stream + (i - at) * 64, sizeof(wide));
      out[i] = reduced(wide);
    }
  }
  sodium_memzero(stream, sizeof(stream));
  return out;
}

Scalar dot(const Scalars& a, const Scalars& b) {
  Scalar sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum = sum + a[i] * b[i];
  return sum;
}

Scalars masked(const Scalars& a, const Scalar& x, const Scalars& b) {
  Scalars out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + x * b[i];
  return out;
}

template <typename Value>
void ColumnSums::add_values(const Scalar& weight, std::span<const Value> values) {
  std::uint64_t limb[4];
  std::memcpy(limb, weight.bytes.data(), sizeof(limb));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Signed value = values[i];
    for (int k = 0; k < 4; ++k) sums_[i].limb[k] += static_cast<Signed>(limb[k]) * value;
  }
}

void ColumnSums::add(const Scalar& weight, std::span<const std::int8_t> values) {
  add_values(weight, values);
}
void ColumnSums::add(const Scalar& weight, std::span<const std::int32_t> values) {
  add_values(weight, values);
}
void ColumnSums::add(const Scalar& weight, std::span<const std::int64_t> values) {
  add_values(weight, values);
}

Scalars ColumnSums::finish() const {
  Scalars out(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    // The order times 2^128 makes the sum positive: a sum is below 2^252 * 2^62 in size.
    std::uint64_t words[8];
    Signed carry = 0;
    for (int k = 0; k < 8; ++k) {
      Signed word = carry;
      if (k < 4) word += static_cast<std::uint64_t>(sums_[i].limb[k]);
      if (k >= 1 && k <= 4) word += sums_[i].limb[k - 1] >> 64;
      if (k >= 2 && k < 6) word += kOrder[k - 2];
      words[k] = static_cast<std::uint64_t>(word);
      carry = word >> 64;
    }
    std::uint8_t wide[64];
    std::memcpy(wide, words, sizeof(wide));
    out[i] = reduced(wide);
  }
  return out;
}

std::array<std::byte, 32> multiply_encoded(const Scalar& scalar,
                                           const std::array<std::byte, 32>& point) {
  std::array<std::byte, 32> out{};
  const int result = crypto_scalarmult_ristretto255(
      reinterpret_cast<unsigned char*>(out.data()), scalar.bytes.data(),
      reinterpret_cast<const unsigned char*>(point.data()));
  // A product that is the identity is reported as a failure.
  if (result != 0) out.fill(std::byte{0});
  return out;
}

std::array<std::byte, 32> hash_to_group(std::string_view label, std::uint64_t index) {
  start_sodium();
  crypto_hash_sha512_state state;
  crypto_hash_sha512_init(&state);
  crypto_hash_sha512_update(&state, reinterpret_cast<const unsigned char*>(label.data()),
                            label.size());
  crypto_hash_sha512_update(&state, reinterpret_cast<const unsigned char*>(&index), sizeof(index));
  unsigned char hash[crypto_hash_sha512_BYTES];
  crypto_hash_sha512_final(&state, hash);
  std::array<std::byte, 32> out;
  crypto_core_ristretto255_from_hash(reinterpret_cast<unsigned char*>(out.data()), hash);
  return out;
}

}  // namespace harmonics::zk
