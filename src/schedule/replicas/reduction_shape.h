// Who adds to whom in a reduction (private to schedule).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <harmonics/schedule/reduction.h>

namespace harmonics::inline in_schedule {

/// A rank's place in the tree that sums flow up and results flow down; a chain is a tree too.
struct ReductionTree {
  std::optional<std::size_t> parent;  // nobody: the root
  std::vector<std::size_t> children;
};

/// For Chain and Tree.
[[nodiscard]] ReductionTree reduction_tree(Reduction order, std::size_t rank, std::size_t ranks);

}  // namespace harmonics::inline in_schedule
