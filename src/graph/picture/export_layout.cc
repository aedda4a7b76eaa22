// The usual four steps of a layered drawing (Sugiyama): ranks, bends, order within a rank, and x.
#include "export_layout.h"

#include <algorithm>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/graph/export.h>

namespace harmonics::inline in_graph {
namespace {

constexpr double kColumnGap = 28;
constexpr double kRankGap = 54;
constexpr double kBendWidth = 10;
constexpr int kOrderSweeps = 12;
constexpr int kPlaceSweeps = 24;

// How much a piece of a arrow wants to be vertical: a chain of boxes most, then the middle of a
// long arrow, and least the place where a long arrow joins a box.
double straightness(const PlacedBox& a, const PlacedBox& b) {
  if (a.is_bend() && b.is_bend()) return 8;
  return a.is_bend() || b.is_bend() ? 0.5 : 50;
}

class Placer {
 public:
  Placer(const BoxGraph& drawn, const std::vector<BoxSize>& sizes) : drawn_(drawn), sizes_(sizes) {}

  Layout run() {
    add_boxes();
    add_links();
    fill_ranks();
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) order_ranks(sweep % 2 == 0);
    place_x();
    place_y();
    return std::move(made_);
  }

 private:
  struct Neighbour {
    std::size_t place;
    double weight;
  };

  [[noreturn]] static void refuse() {
    fail(ErrorCode::kResourceExhausted,
         "the graph is too large to be drawn: more than {} boxes and bends; use Graphviz "
         "(`harmonics graph dot`)",
         kMaxSvgBoxes);
  }

  // Each box stands below all that lead to it; producers right above their first user.
  void add_boxes() {
    const std::size_t count = drawn_.boxes.size();
    if (count > kMaxSvgBoxes) refuse();
    std::vector<std::size_t> rank(count, 0);
    for (const Arrow& arrow : drawn_.arrows) {
      rank[arrow.to] = std::max(rank[arrow.to], rank[arrow.from] + 1);
    }
    std::vector<std::size_t> first_user(count, count);
    for (const Arrow& arrow : drawn_.arrows) {
      first_user[arrow.from] = std::min(first_user[arrow.from], rank[arrow.to]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const bool moves = drawn_.boxes[i].kind == BoxKind::kProducer && first_user[i] != count;
      if (moves) rank[i] = first_user[i] - 1;
      made_.places.push_back({i, rank[i], 0, 0, sizes_[i].width, sizes_[i].height});
    }
  }

  void add_links() {
    for (std::size_t i = 0; i < drawn_.arrows.size(); ++i) {
      const Arrow& arrow = drawn_.arrows[i];
      PlacedArrow placed{i, {arrow.from}};
      for (std::size_t rank = made_.places[arrow.from].rank + 1; rank < made_.places[arrow.to].rank;
           ++rank) {
        if (made_.places.size() == kMaxSvgBoxes) refuse();
        placed.path.push_back(made_.places.size());
        made_.places.push_back({PlacedBox::kBend, rank, 0, 0, kBendWidth, 0});
      }
      placed.path.push_back(arrow.to);
      made_.arrows.push_back(std::move(placed));
    }
    above_.resize(made_.places.size());
    below_.resize(made_.places.size());
    for (const PlacedArrow& arrow : made_.arrows) {
      for (std::size_t i = 0; i + 1 < arrow.path.size(); ++i) {
        const std::size_t upper = arrow.path[i];
        const std::size_t lower = arrow.path[i + 1];
        const double weight = straightness(made_.places[upper], made_.places[lower]);
        below_[upper].push_back({lower, weight});
        above_[lower].push_back({upper, weight});
      }
    }
  }

  void fill_ranks() {
    for (std::size_t i = 0; i < made_.places.size(); ++i) {
      const std::size_t rank = made_.places[i].rank;
      if (rank >= made_.ranks.size()) made_.ranks.resize(rank + 1);
      made_.ranks[rank].push_back(i);
    }
    position_.resize(made_.places.size());
    for (const auto& rank : made_.ranks) number(rank);
  }

  void number(const std::vector<std::size_t>& rank) {
    for (std::size_t i = 0; i < rank.size(); ++i) position_[rank[i]] = static_cast<double>(i);
  }

  // Sorts every rank by the mean position of its neighbours in the rank before (downwards) or
  // after.
  void order_ranks(bool downwards) {
    for (std::size_t step = 0; step < made_.ranks.size(); ++step) {
      auto& rank = made_.ranks[downwards ? step : made_.ranks.size() - 1 - step];
      std::vector<double> wish(rank.size());
      std::vector<std::size_t> order(rank.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t i = 0; i < rank.size(); ++i) {
        const auto& neighbours = downwards ? above_[rank[i]] : below_[rank[i]];
        wish[i] = neighbours.empty() ? position_[rank[i]] : mean(neighbours, position_);
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return wish[a] < wish[b]; });
      std::vector<std::size_t> sorted;
      for (const std::size_t i : order) sorted.push_back(rank[i]);
      rank = std::move(sorted);
      number(rank);
    }
  }

  static double mean(const std::vector<Neighbour>& neighbours,
                     const std::vector<double>& position) {
    double sum = 0;
    for (const Neighbour& each : neighbours) sum += position[each.place];
    return sum / static_cast<double>(neighbours.size());
  }

  void place_x() {
    for (const auto& rank : made_.ranks) {
      double x = 0;
      for (const std::size_t i : rank) {
        made_.places[i].x = x + made_.places[i].width / 2;
        x += made_.places[i].width + kColumnGap;
      }
    }
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      for (std::size_t step = 0; step < made_.ranks.size(); ++step) {
        const bool downwards = sweep % 2 == 0;
        // The last sweeps listen to both sides, so that neither end of a arrow wins.
        const bool both = sweep + 4 >= kPlaceSweeps;
        settle(made_.ranks[downwards ? step : made_.ranks.size() - 1 - step], downwards || both,
               !downwards || both);
      }
    }
    double left = 0;
    for (const PlacedBox& place : made_.places) left = std::min(left, place.left());
    for (PlacedBox& place : made_.places) {
      place.x -= left;
      made_.width = std::max(made_.width, place.right());
    }
  }

  // Moves the places of one rank as near to their wishes as their order and widths allow: least
  // squares under x[i+1] - x[i] >= gap, solved exactly by pooling neighbours that collide.
  void settle(const std::vector<std::size_t>& rank, bool from_above, bool from_below) {
    struct Pool {
      double weight;
      double wish;  // of the pool's first place
      std::size_t size;
    };
    std::vector<double> offset(rank.size(), 0);
    std::vector<Pool> pools;
    for (std::size_t i = 0; i < rank.size(); ++i) {
      const PlacedBox& place = made_.places[rank[i]];
      if (i > 0) {
        const PlacedBox& before = made_.places[rank[i - 1]];
        offset[i] = offset[i - 1] + (before.width + place.width) / 2 + kColumnGap;
      }
      const auto [wish, weight] = wish_of(rank[i], from_above, from_below);
      pools.push_back({weight, wish - offset[i], 1});
      while (pools.size() > 1 && pools[pools.size() - 2].wish > pools.back().wish) {
        const Pool last = pools.back();
        pools.pop_back();
        Pool& into = pools.back();
        into.wish =
            (into.wish * into.weight + last.wish * last.weight) / (into.weight + last.weight);
        into.weight += last.weight;
        into.size += last.size;
      }
    }
    std::size_t i = 0;
    for (const Pool& pool : pools) {
      for (std::size_t k = 0; k < pool.size; ++k, ++i)
        made_.places[rank[i]].x = pool.wish + offset[i];
    }
  }

  // Where a place would like to be, and how much; one without neighbours stays, lightly.
  [[nodiscard]] std::pair<double, double> wish_of(std::size_t index, bool from_above,
                                                  bool from_below) const {
    double sum = 0;
    double weight = 0;
    const auto listen = [&](const std::vector<Neighbour>& neighbours) {
      for (const Neighbour& each : neighbours) {
        sum += made_.places[each.place].x * each.weight;
        weight += each.weight;
      }
    };
    if (from_above) listen(above_[index]);
    if (from_below) listen(below_[index]);
    if (weight == 0) return {made_.places[index].x, 0.1};
    return {sum / weight, weight};
  }

  void place_y() {
    double y = 0;
    for (const auto& rank : made_.ranks) {
      double height = 0;
      for (const std::size_t i : rank) height = std::max(height, made_.places[i].height);
      for (const std::size_t i : rank) {
        PlacedBox& place = made_.places[i];
        if (place.is_bend()) place.height = height;
        place.y = y + (height - place.height) / 2;
      }
      y += height + kRankGap;
    }
    made_.height = std::max(0.0, y - kRankGap);
  }

  const BoxGraph& drawn_;
  const std::vector<BoxSize>& sizes_;
  Layout made_;
  std::vector<std::vector<Neighbour>> above_;
  std::vector<std::vector<Neighbour>> below_;
  /// Within its rank.
  std::vector<double> position_;
};

}  // namespace

Layout lay_out(const BoxGraph& drawn, const std::vector<BoxSize>& sizes) {
  return Placer(drawn, sizes).run();
}

}  // namespace harmonics::inline in_graph
