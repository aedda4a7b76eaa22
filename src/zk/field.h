// Numbers modulo p = 2^255 - 19, in five limbs of 51 bits (private to custody).
//
// Every operation here takes the same time whatever the values are.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace harmonics::zk {

__extension__ using Wide = unsigned __int128;

inline constexpr std::uint64_t kLimbMask = (std::uint64_t{1} << 51) - 1;

/// Limbs stay below 2^54 between multiplications, which is what keeps sums from overflowing.
struct Field {
  std::uint64_t limb[5];
};

inline constexpr Field kFieldZero{{0, 0, 0, 0, 0}};
inline constexpr Field kFieldOne{{1, 0, 0, 0, 0}};

inline Field operator+(const Field& a, const Field& b) {
  Field sum;
  for (int i = 0; i < 5; ++i) sum.limb[i] = a.limb[i] + b.limb[i];
  return sum;
}

/// Brings the limbs of sums of products below 2^52.
inline Field carried(const Wide (&t)[5]) {
  Field out;
  Wide carry = t[0];
  for (int i = 0; i < 5; ++i) {
    out.limb[i] = static_cast<std::uint64_t>(carry) & kLimbMask;
    carry = (carry >> 51) + (i < 4 ? t[i + 1] : 0);
  }
  const Wide first = out.limb[0] + carry * 19;
  out.limb[0] = static_cast<std::uint64_t>(first) & kLimbMask;
  out.limb[1] += static_cast<std::uint64_t>(first >> 51);
  return out;
}

/// a - b + 4p, so that no limb goes below zero.
inline Field operator-(const Field& a, const Field& b) {
  Field out;
  out.limb[0] = a.limb[0] + 0x1fffffffffffb4ULL - b.limb[0];
  for (int i = 1; i < 5; ++i) out.limb[i] = a.limb[i] + 0x1ffffffffffffcULL - b.limb[i];
  return out;
}

inline Field carried(const Field& a) {
  const Wide t[5] = {a.limb[0], a.limb[1], a.limb[2], a.limb[3], a.limb[4]};
  return carried(t);
}

inline Field operator*(const Field& x, const Field& y) {
  const std::uint64_t* a = x.limb;
  const std::uint64_t* b = y.limb;
  const std::uint64_t b1 = b[1] * 19;
  const std::uint64_t b2 = b[2] * 19;
  const std::uint64_t b3 = b[3] * 19;
  const std::uint64_t b4 = b[4] * 19;
  const Wide a0 = a[0];
  const Wide a1 = a[1];
  const Wide a2 = a[2];
  const Wide a3 = a[3];
  const Wide a4 = a[4];
  const Wide t[5] = {a0 * b[0] + a1 * b4 + a2 * b3 + a3 * b2 + a4 * b1,
                     a0 * b[1] + a1 * b[0] + a2 * b4 + a3 * b3 + a4 * b2,
                     a0 * b[2] + a1 * b[1] + a2 * b[0] + a3 * b4 + a4 * b3,
                     a0 * b[3] + a1 * b[2] + a2 * b[1] + a3 * b[0] + a4 * b4,
                     a0 * b[4] + a1 * b[3] + a2 * b[2] + a3 * b[1] + a4 * b[0]};
  return carried(t);
}

inline Field square(const Field& a) { return a * a; }
inline Field negative(const Field& a) { return carried(kFieldZero - a); }

/// a^(2^times).
inline Field square_times(Field a, int times) {
  for (int i = 0; i < times; ++i) a = square(a);
  return a;
}

/// The one encoding of a number: below p, little-endian.
inline std::array<std::uint8_t, 32> field_bytes(const Field& a) {
  Field c = carried(carried(a));
  std::uint64_t over = (c.limb[0] + 19) >> 51;
  for (int i = 1; i < 5; ++i) over = (c.limb[i] + over) >> 51;
  c.limb[0] += 19 * over;
  for (int i = 0; i < 4; ++i) {
    c.limb[i + 1] += c.limb[i] >> 51;
    c.limb[i] &= kLimbMask;
  }
  c.limb[4] &= kLimbMask;
  const std::uint64_t words[4] = {c.limb[0] | c.limb[1] << 51, c.limb[1] >> 13 | c.limb[2] << 38,
                                  c.limb[2] >> 26 | c.limb[3] << 25,
                                  c.limb[3] >> 39 | c.limb[4] << 12};
  std::array<std::uint8_t, 32> out;
  std::memcpy(out.data(), words, out.size());
  return out;
}

/// The top bit is ignored.
inline Field field_from_bytes(const std::uint8_t* bytes) {
  std::uint64_t w[4];
  std::memcpy(w, bytes, sizeof(w));
  return {{w[0] & kLimbMask, (w[0] >> 51 | w[1] << 13) & kLimbMask,
           (w[1] >> 38 | w[2] << 26) & kLimbMask, (w[2] >> 25 | w[3] << 39) & kLimbMask,
           (w[3] >> 12) & kLimbMask}};
}

inline bool is_equal(const Field& a, const Field& b) { return field_bytes(a) == field_bytes(b); }
inline bool is_zero(const Field& a) { return is_equal(a, kFieldZero); }
/// A number is negative when its encoding is odd.
inline bool is_negative(const Field& a) { return (field_bytes(a)[0] & 1) != 0; }

/// `b` if `choose_b`, else `a`.
inline Field select(const Field& a, const Field& b, bool choose_b) {
  const std::uint64_t mask = std::uint64_t{0} - static_cast<std::uint64_t>(choose_b);
  Field out;
  for (int i = 0; i < 5; ++i) out.limb[i] = a.limb[i] ^ (mask & (a.limb[i] ^ b.limb[i]));
  return out;
}
inline Field absolute(const Field& a) { return select(a, negative(a), is_negative(a)); }

/// a^(2^252 - 3), the core of square roots.
inline Field power_for_root(const Field& a) {
  const Field a2 = square(a);
  const Field a9 = square_times(a2, 2) * a;
  const Field a11 = a9 * a2;
  const Field e5 = square(a11) * a9;           // 2^5 - 1
  const Field e10 = square_times(e5, 5) * e5;  // 2^10 - 1
  const Field e20 = square_times(e10, 10) * e10;
  const Field e40 = square_times(e20, 20) * e20;
  const Field e50 = square_times(e40, 10) * e10;
  const Field e100 = square_times(e50, 50) * e50;
  const Field e200 = square_times(e100, 100) * e100;
  const Field e250 = square_times(e200, 50) * e50;
  return square_times(e250, 2) * a;
}

/// a^(p - 2); zero for zero.
inline Field inverse(const Field& a) {
  // p - 2 = (2^252 - 3) * 8 + 3.
  return square_times(power_for_root(a), 3) * square(a) * a;
}

/// The non-negative root of u/v if there is one, else of sqrt(-1) u/v.
struct Root {
  bool exists = false;
  Field value;
};
Root root_of_ratio(const Field& u, const Field& v);

/// d of the curve -x^2 + y^2 = 1 + d x^2 y^2, and what follows from it.
struct CurveNumbers {
  Field d;
  Field d2;                    // 2d
  Field root_minus_one;        // sqrt(-1)
  Field inverse_root_a_minus;  // 1 / sqrt(-1 - d)
};
const CurveNumbers& curve_numbers();

}  // namespace harmonics::zk
