#include <algorithm>
#include <memory>
#include <utility>

#include <harmonics/schedule/reduction.h>

#include "border.h"
#include "watched_end.h"

using namespace harmonics;
using namespace harmonics::border;

struct hm_reducer {
  Reducer reducer;
};

namespace harmonics::border {

ReductionEnds reduction_ends(const hm_replicas& replicas, const std::shared_ptr<EndWatch>& watch) {
  std::vector<std::unique_ptr<hm_end>> owned;
  for (std::size_t i = 0; i < replicas.count; ++i) owned.emplace_back(replicas.ends[i]);
  ReductionEnds ends;
  ends.rank = static_cast<std::size_t>(replicas.rank);
  ends.ranks = static_cast<std::size_t>(replicas.ranks);
  for (std::size_t i = 0; i < replicas.count; ++i) {
    hm_end& end = object_of(owned[i].get(), "ends");
    ends.peers[static_cast<std::size_t>(replicas.peers[i])] =
        watched(std::move(end.transport), end.kind, watch);
  }
  return ends;
}

}  // namespace harmonics::border

extern "C" {

int hm_reduction_peers(const char* order, int32_t rank, int32_t ranks, int32_t* out,
                       size_t* count) {
  return guarded([&] {
    const auto peers =
        reduction_peers(reduction_from_name(text_of(order, "order")),
                        static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks));
    object_of(count, "count") = peers.size();
    std::copy(peers.begin(), peers.end(), out);
  });
}

int hm_reducer_new(const hm_replicas* replicas, hm_reducer** out) {
  return guarded([&] {
    const hm_replicas& given = object_of(replicas, "replicas");
    ReductionEnds ends = reduction_ends(given, std::make_shared<EndWatch>());
    ReductionOptions options;
    options.order = reduction_from_name(text_of(given.order, "order"));
    object_of(out, "out") = new hm_reducer{Reducer(std::move(ends), options)};
  });
}

int hm_reducer_sum(hm_reducer* reducer, const hm_tensor* tensors, size_t count, uint64_t step,
                   hm_tensors** out) {
  return guarded([&] {
    const NamedTensors own = adopt(tensors, count);
    object_of(out, "out") = new hm_tensors(object_of(reducer, "reducer").reducer.sum(own, step));
  });
}

void hm_reducer_free(hm_reducer* reducer) { delete reducer; }

}  // extern "C"
