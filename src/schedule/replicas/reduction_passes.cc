#include <utility>
#include <vector>

#include "reduction_neighbours.h"
#include "reduction_shape.h"

namespace harmonics::inline in_schedule {
namespace {

/// Two ranks give each other what they have, and both add it up in the same order: as many bytes as
/// by way of one of them, and nobody waits for an answer.
void reduce_by_exchange(ReductionNeighbours& neighbours, const ReductionChunks& chunks,
                        NamedTensors& result) {
  const std::size_t other = 1 - neighbours.rank();
  const std::size_t ahead = neighbours.options().chunks_ahead;
  // Neither is made from the other: for custody they are different ways.
  const ReductionWay own = neighbours.rank() == 0 ? ReductionWay::kGather : ReductionWay::kSpread;
  const ReductionWay theirs =
      neighbours.rank() == 0 ? ReductionWay::kSpread : ReductionWay::kGather;
  std::size_t sent = 0;
  for (std::size_t back = 0; back < chunks.count();) {
    const bool may_send = sent < chunks.count() && sent - back < ahead;
    // Whoever waits for the other has sent what the other waits for.
    if (may_send && (sent == back || chunks.is_there(sent))) {
      chunks.await(sent);
      neighbours.send(other, own, sent, chunks.values(sent));
      ++sent;
      continue;
    }
    const Tensor came = neighbours.receive(other, theirs, back);
    chunks.store_sum(back, came, neighbours.rank() == 0, result);
    ++back;
  }
}

/// Sums flow up the tree, the root's results flow down; chunks follow each other closely.
void reduce_by_tree(ReductionNeighbours& neighbours, const ReductionChunks& chunks,
                    NamedTensors& result) {
  const ReductionTree tree =
      reduction_tree(neighbours.options().order, neighbours.rank(), neighbours.ranks());
  const std::size_t ahead = tree.parent ? neighbours.options().chunks_ahead : 1;
  std::size_t sent = 0;
  Tensor whole;  // the root's
  for (std::size_t back = 0; back < chunks.count(); ++back) {
    for (; sent < chunks.count() && sent - back < ahead; ++sent) {
      chunks.await(sent);
      Tensor sum = chunks.values(sent);
      for (const std::size_t child : tree.children) {
        sum = sum_of(neighbours.receive(child, ReductionWay::kGather, sent), sum);
      }
      if (tree.parent) neighbours.send(*tree.parent, ReductionWay::kGather, sent, sum);
      whole = std::move(sum);
    }
    if (tree.parent) whole = neighbours.receive(*tree.parent, ReductionWay::kSpread, back);
    for (const std::size_t child : tree.children) {
      neighbours.send(child, ReductionWay::kSpread, back, whole);
    }
    chunks.store(back, whole, result);
  }
}

/// Segment s starts at rank s and goes round once to be summed, and once more as the result.
class RingTurns {
 public:
  RingTurns(ReductionNeighbours& neighbours, const ReductionChunks& chunks, NamedTensors& result)
      : neighbours_(neighbours),
        chunks_(chunks),
        result_(result),
        ranks_(neighbours.ranks()),
        carried_(chunks.count()) {}

  void make(std::size_t turn) {
    const std::size_t out = (neighbours_.rank() + 2 * ranks_ - turn) % ranks_;
    const std::size_t in = (out + ranks_ - 1) % ranks_;
    std::size_t leaving = first_of(out);
    std::size_t entering = first_of(in);
    while (leaving < first_of(out + 1) || entering < first_of(in + 1)) {
      if (leaving < first_of(out + 1)) send(turn, leaving++);
      if (entering < first_of(in + 1)) receive(turn, entering++);
    }
  }

 private:
  [[nodiscard]] std::size_t first_of(std::size_t segment) const {
    return chunks_.count() * segment / ranks_;
  }
  [[nodiscard]] ReductionWay way(std::size_t turn) const {
    return turn < ranks_ - 1 ? ReductionWay::kGather : ReductionWay::kSpread;
  }
  void send(std::size_t turn, std::size_t chunk) {
    if (turn == 0) {
      chunks_.await(chunk);
      carried_[chunk] = chunks_.values(chunk);
    }
    neighbours_.send((neighbours_.rank() + 1) % ranks_, way(turn), chunk, carried_[chunk]);
    carried_[chunk] = {};
  }
  void receive(std::size_t turn, std::size_t chunk) {
    Tensor came = neighbours_.receive((neighbours_.rank() + ranks_ - 1) % ranks_, way(turn), chunk);
    if (way(turn) == ReductionWay::kGather) {
      chunks_.await(chunk);
      came = sum_of(came, chunks_.values(chunk));
    }
    if (turn + 2 >= ranks_) chunks_.store(chunk, came, result_);
    carried_[chunk] = std::move(came);
  }

  ReductionNeighbours& neighbours_;
  const ReductionChunks& chunks_;
  NamedTensors& result_;
  const std::size_t ranks_;
  std::vector<Tensor> carried_;  // of the segment that goes out next
};

void reduce_by_ring(ReductionNeighbours& neighbours, const ReductionChunks& chunks,
                    NamedTensors& result) {
  RingTurns turns(neighbours, chunks, result);
  for (std::size_t turn = 0; turn < 2 * (neighbours.ranks() - 1); ++turn) turns.make(turn);
}

}  // namespace

bool cuts_freely(Reduction order) { return order != Reduction::Ring; }

void reduce_over(ReductionNeighbours& neighbours, const ReductionChunks& chunks,
                 NamedTensors& result) {
  if (neighbours.options().order == Reduction::Ring) {
    reduce_by_ring(neighbours, chunks, result);
  } else if (neighbours.ranks() == 2) {
    reduce_by_exchange(neighbours, chunks, result);
  } else {
    reduce_by_tree(neighbours, chunks, result);
  }
}

}  // namespace harmonics::inline in_schedule
