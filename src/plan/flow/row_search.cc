#include "row_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <harmonics/base/random.h>

namespace harmonics::inline in_plan {
namespace {

using Rows = std::vector<Row>;

constexpr double kRowHeat = 0.08;
constexpr std::uint64_t kRowMovesPerHost = 4'000;
constexpr std::uint64_t kMostRowMoves = 120'000;
constexpr std::size_t kMostRowsAtFirst = 8;
constexpr double kStageSharpness = 12;  // of the soft minimum over stages
constexpr int kRowHalvings = 24;
constexpr double kBetterRows = 1 + 1e-9;

class RowAnnealer {
 public:
  RowAnnealer(const FlowProblem& problem, std::uint64_t work)
      : problem_(problem), limit_(work), random_(random_key(0, "rows")) {}

  const Rows& best() const { return best_; }

  void consider(const Rows& rows) {
    double rate = 0;
    for (const Row& row : rows) rate += ideal_row_rate(problem_, row);
    if (rate <= best_rate_ * kBetterRows) return;
    best_rate_ = rate;
    best_ = rows;
  }

  void run() {
    const std::size_t most = std::min(kMostRowsAtFirst, problem_.hosts.size());
    for (std::size_t round = 0; work_ < limit_; ++round) {
      // Every second round goes on from the best one, the others begin with 1, 2, … rows.
      if (round % 2 == 1 && !best_.empty()) {
        anneal(best_, kRowHeat / 2);
      } else {
        anneal(fresh(1 + (round / 2) % most), kRowHeat);
      }
    }
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_.below(bound)); }

  double rate_of(std::size_t host, FlowRange range) const {
    return problem_.rate(problem_.hosts[host].kind, range.first_cut, range.last_cut);
  }

  std::size_t reach(std::size_t host, std::size_t cut, double rate) const {
    std::size_t last = cut;
    for (std::size_t j = cut + 1; j <= problem_.layers; ++j) {
      const double here = rate_of(host, {cut, j});
      if (here <= 0) break;
      if (here >= rate) last = j;
    }
    return last;
  }

  Row chain(std::span<const std::size_t> hosts, double rate) {
    Row row;
    std::size_t cut = 0;
    for (const std::size_t host : hosts) {
      const std::size_t last = cut < problem_.layers ? reach(host, cut, rate) : cut;
      if (last > cut) row.push_back({{cut, last}, {host}});
      cut = last;
      work_ += problem_.layers;
    }
    return cut == problem_.layers ? row : Row{};
  }

  // Hosts dealt out to rows, each row a chain at the rate that it can keep.
  Rows fresh(std::size_t count) {
    std::vector<std::size_t> order(problem_.hosts.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[below(k)]);
    Rows rows;
    for (std::size_t r = 0; r < count; ++r) {
      std::vector<std::size_t> hosts;
      for (std::size_t k = r; k < order.size(); k += count) hosts.push_back(order[k]);
      double low = 0;
      double high = 0;
      for (const std::size_t host : hosts) {
        for (std::size_t l = 0; l < problem_.layers; ++l) {
          high = std::max(high, rate_of(host, {l, l + 1}));
        }
      }
      for (int k = 0; k < kRowHalvings; ++k) {
        const double middle = (low + high) / 2;
        (chain(hosts, middle).empty() ? high : low) = middle;
      }
      Row row = chain(hosts, low);
      if (!row.empty()) rows.push_back(std::move(row));
    }
    return rows;
  }

  // Close to the sum of the rows' rates, and better where fewer stages are as slow as the slowest.
  double soft_rate(const Rows& rows) {
    double sum = 0;
    for (const Row& row : rows) {
      const double rate = ideal_row_rate(problem_, row);
      if (!(rate > 0)) return 0;
      double slow = 0;
      for (const RowStage& stage : row) {
        double own = 0;
        for (const std::size_t host : stage.hosts) own += rate_of(host, stage.range);
        slow += std::pow(rate / own, kStageSharpness);
        work_ += stage.hosts.size();
      }
      sum += rate * std::pow(std::max(1.0, slow), -0.1 / kStageSharpness);
    }
    return sum;
  }

  void anneal(Rows rows, double heat) {
    if (rows.empty()) return;
    consider(rows);
    double value = soft_rate(rows);
    const std::uint64_t moves = std::min(kMostRowMoves, kRowMovesPerHost * problem_.hosts.size());
    Rows next;
    for (std::uint64_t k = 0; k < moves && work_ < limit_; ++k) {
      const double left = 1 - static_cast<double>(k) / static_cast<double>(moves);
      next = rows;
      work_ += problem_.hosts.size();
      if (!change(next)) continue;
      const double then = soft_rate(next);
      const bool keeps =
          then >= value ||
          (then > 0 && random_.uniform() < std::pow(then / value, 1 / (heat * left * left + 1e-9)));
      if (!keeps) continue;
      std::swap(rows, next);
      value = then;
      consider(rows);
    }
    work_ += problem_.hosts.size();
  }

  bool change(Rows& rows) {
    switch (below(10)) {
      case 0:
      case 1:
      case 2: return move_cut(rows);
      case 3:
      case 4: return move_host(rows);
      case 5:
      case 6: return swap_hosts(rows);
      case 7: return split_stage(rows);
      case 8: return merge_stages(rows);
      default: return below(4) == 0 ? drop_row(rows) : add_row(rows);
    }
  }

  struct Seat {
    std::size_t row = 0;
    std::size_t stage = 0;
    std::size_t place = 0;
    bool taken = false;
  };

  static Seat seat_of(const Rows& rows, std::size_t host) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t s = 0; s < rows[r].size(); ++s) {
        const auto& hosts = rows[r][s].hosts;
        const auto found = std::ranges::find(hosts, host);
        if (found == hosts.end()) continue;
        return {r, s, static_cast<std::size_t>(found - hosts.begin()), true};
      }
    }
    return {};
  }

  // Takes a host out; a stage that is left empty goes to a neighbour.
  bool take_out(Rows& rows, const Seat& seat) {
    if (!seat.taken) return true;
    Row& row = rows[seat.row];
    auto& hosts = row[seat.stage].hosts;
    hosts.erase(hosts.begin() + static_cast<std::ptrdiff_t>(seat.place));
    if (!hosts.empty()) return true;
    if (row.size() == 1) {
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(seat.row));
      return !rows.empty();
    }
    const bool forward = seat.stage == 0 || (seat.stage + 1 < row.size() && below(2) == 0);
    if (forward) {
      row[seat.stage + 1].range.first_cut = row[seat.stage].range.first_cut;
    } else {
      row[seat.stage - 1].range.last_cut = row[seat.stage].range.last_cut;
    }
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(seat.stage));
    return true;
  }

  RowStage& any_stage(Rows& rows) {
    Row& row = rows[below(rows.size())];
    return row[below(row.size())];
  }

  bool move_cut(Rows& rows) {
    Row& row = rows[below(rows.size())];
    if (row.size() < 2) return false;
    const std::size_t k = below(row.size() - 1);
    const std::size_t cut = row[k].range.last_cut;
    const std::size_t far = 1 + (below(3) == 0 ? below(4) : 0);
    const std::size_t to = below(2) == 0 ? cut + far : cut - std::min(cut, far);
    if (to <= row[k].range.first_cut || to >= row[k + 1].range.last_cut) return false;
    row[k].range.last_cut = row[k + 1].range.first_cut = to;
    return true;
  }

  bool move_host(Rows& rows) {
    const std::size_t host = below(problem_.hosts.size());
    if (!take_out(rows, seat_of(rows, host))) return false;
    if (below(16) == 0) return true;
    any_stage(rows).hosts.push_back(host);
    return true;
  }

  bool swap_hosts(Rows& rows) {
    const std::size_t a = below(problem_.hosts.size());
    const std::size_t b = below(problem_.hosts.size());
    const Seat x = seat_of(rows, a);
    const Seat y = seat_of(rows, b);
    if (a == b || (!x.taken && !y.taken)) return false;
    if (x.taken) rows[x.row][x.stage].hosts[x.place] = b;
    if (y.taken) rows[y.row][y.stage].hosts[y.place] = a;
    return true;
  }

  // A stage of one host gets another one's help for a part of its layers.
  bool split_stage(Rows& rows) {
    const std::size_t host = below(problem_.hosts.size());
    if (!take_out(rows, seat_of(rows, host))) return false;
    Row& row = rows[below(rows.size())];
    const std::size_t s = below(row.size());
    const FlowRange range = row[s].range;
    if (range.last_cut < range.first_cut + 2) return false;
    const std::size_t cut = range.first_cut + 1 + below(range.last_cut - range.first_cut - 1);
    const bool before = below(2) == 0;
    RowStage added{before ? FlowRange{range.first_cut, cut} : FlowRange{cut, range.last_cut},
                   {host}};
    row[s].range = before ? FlowRange{cut, range.last_cut} : FlowRange{range.first_cut, cut};
    row.insert(row.begin() + static_cast<std::ptrdiff_t>(before ? s : s + 1), std::move(added));
    return true;
  }

  bool merge_stages(Rows& rows) {
    Row& row = rows[below(rows.size())];
    if (row.size() < 2) return false;
    const std::size_t k = below(row.size() - 1);
    row[k].range.last_cut = row[k + 1].range.last_cut;
    for (const std::size_t host : row[k + 1].hosts) row[k].hosts.push_back(host);
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    return true;
  }

  // A host, or two, that make a row of their own.
  bool add_row(Rows& rows) {
    const std::size_t a = below(problem_.hosts.size());
    const std::size_t b = below(problem_.hosts.size());
    if (!take_out(rows, seat_of(rows, a))) return false;
    if (below(2) == 0 || a == b || problem_.layers < 2) {
      rows.push_back({{{0, problem_.layers}, {a}}});
      return true;
    }
    if (!take_out(rows, seat_of(rows, b))) return false;
    const std::size_t cut = 1 + below(problem_.layers - 1);
    rows.push_back({{{0, cut}, {a}}, {{cut, problem_.layers}, {b}}});
    return true;
  }

  // A row's hosts go to the stages of the others.
  bool drop_row(Rows& rows) {
    if (rows.size() < 2) return false;
    const std::size_t k = below(rows.size());
    const Row row = std::move(rows[k]);
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(k));
    for (const RowStage& stage : row) {
      for (const std::size_t host : stage.hosts) any_stage(rows).hosts.push_back(host);
    }
    return true;
  }

  const FlowProblem& problem_;
  std::uint64_t limit_;
  Random random_;
  Rows best_;
  double best_rate_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace

std::vector<Row> search_rows(const FlowProblem& problem, std::span<const std::vector<Row>> starts,
                             std::uint64_t work) {
  RowAnnealer annealer(problem, work);
  for (const std::vector<Row>& start : starts) annealer.consider(start);
  annealer.run();
  return annealer.best();
}

}  // namespace harmonics::inline in_plan
