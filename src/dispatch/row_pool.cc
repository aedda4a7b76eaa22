#include "row_pool.h"

#include <algorithm>

#include <harmonics/base/check.h>

namespace harmonics::inline in_dispatch {
namespace {

RowRange cut_front(RowRange& from, std::size_t rows) {
  const RowRange front{from.begin, from.begin + std::min(rows, from.size())};
  from.begin = front.end;
  return front;
}

}  // namespace

Claim RowPool::take(std::size_t rows) {
  Claim claim;
  if (returned_.empty()) {
    claim.rows = cut_front(fresh_, rows);
  } else {
    Claim& last = returned_.back();
    claim = last;
    claim.rows = cut_front(last.rows, rows);
    if (last.rows.size() == 0) returned_.pop_back();
  }
  HARMONICS_CHECK(claim.rows.size() > 0 && claim.rows.size() <= left_, "{} rows are taken of {}",
                  claim.rows.size(), left_);
  left_ -= claim.rows.size();
  return claim;
}

void RowPool::put_back(const Claim& claim) {
  left_ += claim.rows.size();
  returned_.push_back(claim);
}

}  // namespace harmonics::inline in_dispatch
