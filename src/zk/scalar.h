// Scalars of ristretto255: numbers modulo the group's order (private to custody). libsodium does
// the arithmetic, in constant time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>

namespace harmonics::zk {

/// Below the order, little-endian.
struct Scalar {
  std::array<std::uint8_t, 32> bytes{};
  bool operator==(const Scalar&) const = default;
};
using Scalars = std::vector<Scalar>;

[[nodiscard]] Scalar operator+(const Scalar& a, const Scalar& b);
[[nodiscard]] Scalar operator-(const Scalar& a, const Scalar& b);
[[nodiscard]] Scalar operator*(const Scalar& a, const Scalar& b);
[[nodiscard]] Scalar negative(const Scalar& a);
[[nodiscard]] Scalar inverse(const Scalar& a);
[[nodiscard]] Scalar scalar_of(std::int64_t value);
[[nodiscard]] bool is_canonical(const Scalar& scalar);
/// From the operating system's randomness.
[[nodiscard]] Scalar random_scalar();
[[nodiscard]] Scalars random_scalars(std::size_t count);
/// `count` scalars that follow from 32 bytes, each uniform.
[[nodiscard]] Scalars expanded(const Digest& seed, std::size_t count);

[[nodiscard]] Scalar dot(const Scalars& a, const Scalars& b);
/// a + x b, element by element.
[[nodiscard]] Scalars masked(const Scalars& a, const Scalar& x, const Scalars& b);

/// Sums of scalar times small number for many columns at once, without reducing in between.
class ColumnSums {
 public:
  explicit ColumnSums(std::size_t columns) : sums_(columns) {}
  /// Adds weight * values[i] to column i. At most 2^30 rows.
  void add(const Scalar& weight, std::span<const std::int8_t> values);
  void add(const Scalar& weight, std::span<const std::int32_t> values);
  /// As long as the sizes of all values in a column stay below 2^62 together.
  void add(const Scalar& weight, std::span<const std::int64_t> values);
  [[nodiscard]] Scalars finish() const;

 private:
  __extension__ using Signed = __int128;
  struct Sum {
    Signed limb[4] = {0, 0, 0, 0};
  };
  template <typename Value>
  void add_values(const Scalar& weight, std::span<const Value> values);
  std::vector<Sum> sums_;
};

/// Fills with the operating system's randomness.
void fill_secret(std::span<std::byte> out);
/// libsodium's own arithmetic on encoded points: constant-time product, and hashing to the group.
/// The product is the identity (all zero) for a zero scalar.
[[nodiscard]] std::array<std::byte, 32> multiply_encoded(const Scalar& scalar,
                                                         const std::array<std::byte, 32>& point);
[[nodiscard]] std::array<std::byte, 32> hash_to_group(std::string_view label, std::uint64_t index);

}  // namespace harmonics::zk
