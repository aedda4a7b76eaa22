// The linear programme of a relaxation: the mixture of paths that spares hosts most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace harmonics::inline in_plan {

/// Mixes paths (weights w, sum 1) so that the share z of what there is in use is least: used_u . w
/// + slack_u = z capacity_u. One row per class (or other thing that there is a limit of) and one
/// for the sum; the basis inverse is kept and updated column by column.
class MasterProblem {
 public:
  /// Smaller numbers are none.
  static constexpr double kPivotFloor = 1e-11;

  /// The first path has the number 0.
  MasterProblem(std::span<const double> capacity, std::span<const double> first_path)
      : classes_(capacity.size()), rows_(classes_ + 1), path_(rows_, kNoPath) {
    path_[classes_] = 0;
    std::size_t fullest = 0;
    while (capacity[fullest] == 0) ++fullest;  // a path exists, so some class has hosts
    for (std::size_t u = fullest + 1; u < classes_; ++u) {
      if (first_path[u] * capacity[fullest] > first_path[fullest] * capacity[u]) fullest = u;
    }
    // Start: the first path alone; z is set by the class that it fills most, slack fills the rest.
    // Inverse of that basis, written out.
    inverse_.assign(rows_ * rows_, 0);
    value_.assign(rows_, 0);
    cost_.assign(rows_, 0);
    cost_[fullest] = 1;
    const double z_per_use = 1.0 / capacity[fullest];
    for (std::size_t u = 0; u < classes_; ++u) {
      const double share = capacity[u] * z_per_use;
      if (u == fullest) {
        at(u, u) = -z_per_use;
        at(u, classes_) = first_path[u] * z_per_use;
      } else {
        at(u, u) = 1;
        at(u, fullest) = -share;
        at(u, classes_) = share * first_path[fullest] - first_path[u];
      }
    }
    at(classes_, classes_) = 1;
    for (std::size_t r = 0; r < rows_; ++r) value_[r] = at(r, classes_);
  }

  /// The least share z so far.
  double objective() const {
    double sum = 0;
    for (std::size_t r = 0; r < rows_; ++r) sum += cost_[r] * value_[r];
    return sum;
  }

  /// The price of each class in the present basis; a negative one means that slack should enter.
  std::vector<double> prices() const {
    std::vector<double> result(classes_, 0);
    for (std::size_t r = 0; r < rows_; ++r) {
      if (cost_[r] == 0) continue;
      for (std::size_t u = 0; u < classes_; ++u) result[u] -= cost_[r] * at(r, u);
    }
    return result;
  }

  /// False when nothing can leave for it.
  bool enter_slack(std::size_t u) {
    std::vector<double> column(rows_);
    for (std::size_t r = 0; r < rows_; ++r) column[r] = at(r, u);
    return pivot(column, kNoPath);
  }

  /// The same for a path, which gets a number.
  bool enter_path(std::span<const double> used, std::size_t number = 0) {
    std::vector<double> column(rows_);
    for (std::size_t r = 0; r < rows_; ++r) {
      double sum = at(r, classes_);
      for (std::size_t u = 0; u < classes_; ++u) sum += at(r, u) * used[u];
      column[r] = sum;
    }
    return pivot(column, number);
  }

  /// Calls visit(number, weight) for each path of the mixture.
  template <typename Visit>
  void for_each_path(Visit&& visit) const {
    for (std::size_t r = 0; r < rows_; ++r) {
      if (path_[r] != kNoPath && value_[r] > kPivotFloor) visit(path_[r], value_[r]);
    }
  }

  std::size_t work() const { return rows_ * rows_ / 6 + 1; }

 private:
  static constexpr std::size_t kNoPath = static_cast<std::size_t>(-1);

  double& at(std::size_t row, std::size_t column) { return inverse_[row * rows_ + column]; }
  double at(std::size_t row, std::size_t column) const { return inverse_[row * rows_ + column]; }

  // Puts a column without cost into the basis; false when nothing can leave.
  bool pivot(const std::vector<double>& column, std::size_t number) {
    std::size_t leaving = rows_;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < rows_; ++r) {
      if (column[r] <= kPivotFloor) continue;
      const double ratio = std::max(0.0, value_[r]) / column[r];
      if (ratio < least - 1e-13) {
        least = ratio;
        leaving = r;
      }
    }
    if (leaving == rows_) return false;
    const double scale = 1 / column[leaving];
    for (std::size_t k = 0; k < rows_; ++k) at(leaving, k) *= scale;
    value_[leaving] *= scale;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (r == leaving || column[r] == 0) continue;
      for (std::size_t k = 0; k < rows_; ++k) at(r, k) -= column[r] * at(leaving, k);
      value_[r] -= column[r] * value_[leaving];
    }
    cost_[leaving] = 0;
    path_[leaving] = number;
    return true;
  }

  std::size_t classes_;
  std::size_t rows_;
  std::vector<double> inverse_;
  std::vector<double> value_;
  std::vector<double> cost_;
  std::vector<std::size_t> path_;  // per row, the path that its basic variable weighs
};

}  // namespace harmonics::inline in_plan
