#include "point.h"

namespace harmonics::zk {

Root root_of_ratio(const Field& u, const Field& v) {
  const Field& i = curve_numbers().root_minus_one;
  const Field v3 = square(v) * v;
  const Field v7 = square(v3) * v;
  Field root = u * v3 * power_for_root(u * v7);
  const Field check = v * square(root);
  const Field minus_u = negative(u);
  const bool correct = is_equal(check, u);
  const bool flipped = is_equal(check, minus_u);
  const bool flipped_i = is_equal(check, minus_u * i);
  root = absolute(select(root, root * i, flipped || flipped_i));
  return {correct || flipped, root};
}

namespace {

CurveNumbers make_curve_numbers() {
  CurveNumbers n;
  n.d = negative(Field{{121665, 0, 0, 0, 0}}) * inverse(Field{{121666, 0, 0, 0, 0}});
  n.d2 = carried(n.d + n.d);
  // 2 is no square modulo p, so 2^((p-1)/4) is a root of -1; (p-1)/4 = 2 (2^252 - 3) + 1.
  const Field two{{2, 0, 0, 0, 0}};
  n.root_minus_one = absolute(square(power_for_root(two)) * two);
  return n;
}

}  // namespace

const CurveNumbers& curve_numbers() {
  static const CurveNumbers numbers = [] {
    CurveNumbers n = make_curve_numbers();
    // As root_of_ratio(1, -1 - d), which would need these numbers.
    const Field v = carried(negative(kFieldOne) - n.d);
    const Field v3 = square(v) * v;
    Field root = v3 * power_for_root(square(v3) * v);
    const Field check = v * square(root);
    root = select(root, root * n.root_minus_one, !is_equal(check, kFieldOne));
    n.inverse_root_a_minus = absolute(root);
    return n;
  }();
  return numbers;
}

Point identity() { return {kFieldZero, kFieldOne, kFieldOne, kFieldZero}; }

Point add(const Point& a, const Point& b) {
  const Field f1 = (a.y - a.x) * (b.y - b.x);
  const Field f2 = (a.y + a.x) * (b.y + b.x);
  const Field f3 = a.t * curve_numbers().d2 * b.t;
  const Field f4 = (a.z + a.z) * b.z;
  const Field e = f2 - f1;
  const Field f = f4 - f3;
  const Field g = f4 + f3;
  const Field h = f2 + f1;
  return {e * f, g * h, f * g, e * h};
}

Point twice(const Point& p) {
  const Field a = square(p.x);
  const Field b = square(p.y);
  const Field zz = square(p.z);
  const Field h = a + b;
  const Field e = carried(h - square(p.x + p.y));
  const Field g = carried(a - b);
  const Field f = carried(zz + zz + g);
  return {e * f, g * h, f * g, e * h};
}

Point negative(const Point& a) { return {negative(a.x), a.y, a.z, negative(a.t)}; }

namespace {

AffinePoint prepared(const Field& x, const Field& y) {
  return {carried(y + x), carried(y - x), x * y * curve_numbers().d2};
}

}  // namespace

AffinePoint affine(const Point& point) {
  const Field z = inverse(point.z);
  return prepared(point.x * z, point.y * z);
}

std::vector<AffinePoint> affine(std::span<const Point> points) {
  std::vector<Field> before;  // products of all z before
  before.reserve(points.size());
  Field product = kFieldOne;
  for (const Point& point : points) {
    before.push_back(product);
    product = product * point.z;
  }
  Field rest = inverse(product);
  std::vector<AffinePoint> out(points.size());
  for (std::size_t i = points.size(); i-- > 0;) {
    const Field z = rest * before[i];
    rest = rest * points[i].z;
    out[i] = prepared(points[i].x * z, points[i].y * z);
  }
  return out;
}

std::optional<Point> decode_point(const PointBytes& bytes) {
  const auto* raw = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const Field s = field_from_bytes(raw);
  const auto canonical = field_bytes(s);
  if (std::memcmp(canonical.data(), raw, canonical.size()) != 0 || is_negative(s)) {
    return std::nullopt;
  }
  const Field ss = square(s);
  const Field u1 = carried(kFieldOne - ss);
  const Field u2 = carried(kFieldOne + ss);
  const Field u2_squared = square(u2);
  const Field v = carried(negative(curve_numbers().d * square(u1)) - u2_squared);
  const Root root = root_of_ratio(kFieldOne, v * u2_squared);
  const Field den_x = root.value * u2;
  const Field den_y = root.value * den_x * v;
  const Field x = absolute((s + s) * den_x);
  const Field y = u1 * den_y;
  const Field t = x * y;
  if (!root.exists || is_negative(t) || is_zero(y)) return std::nullopt;
  return Point{x, y, kFieldOne, t};
}

PointBytes encode_point(const Point& p) {
  const CurveNumbers& n = curve_numbers();
  const Field u1 = carried(p.z + p.y) * carried(p.z - p.y);
  const Field u2 = p.x * p.y;
  const Field root = root_of_ratio(kFieldOne, u1 * square(u2)).value;
  const Field den1 = root * u1;
  const Field den2 = root * u2;
  const Field z_inverse = den1 * den2 * p.t;
  const bool rotate = is_negative(p.t * z_inverse);
  const Field x = select(p.x, p.y * n.root_minus_one, rotate);
  Field y = select(p.y, p.x * n.root_minus_one, rotate);
  const Field den = select(den2, den1 * n.inverse_root_a_minus, rotate);
  y = select(y, negative(y), is_negative(x * z_inverse));
  const auto raw = field_bytes(absolute(den * carried(p.z - y)));
  PointBytes out;
  std::memcpy(out.data(), raw.data(), out.size());
  return out;
}

bool is_same(const Point& a, const Point& b) {
  return is_equal(a.x * b.y, a.y * b.x) || is_equal(a.y * b.y, a.x * b.x);
}

}  // namespace harmonics::zk
