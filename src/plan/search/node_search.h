// Looks for a path with replicated stages, node by node.
//
// Where stages take anything from one host to a thousand, plans with as many stages have little in
// common; partial plans are compared where they have come equally far instead.
#pragma once

#include "path_search.h"

namespace harmonics::inline in_plan {

/// Like search_path, for questions without weights: at each node the `width` partial plans with the
/// best bound go on. Deterministic.
[[nodiscard]] SearchResult search_by_node(const PathQuestion& question, WorkBudget& budget);

}  // namespace harmonics::inline in_plan
