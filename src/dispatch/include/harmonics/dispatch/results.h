// What becomes of the results of sub-batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/dispatch/generator.h>

namespace harmonics::inline in_dispatch {

/// Takes the result of each sub-batch and gives the result of the run. `put` is called by several
/// lanes at once, for rows that never overlap, each lane with its own number; the others by the
/// thread that runs the dispatcher, while no lane is at work.
template <typename Part, typename Result>
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  /// A run over `rows` begins, with so many lanes; what an earlier run left is dropped.
  virtual void begin(RowRange rows, std::size_t lanes) = 0;
  /// Before `begin`: the names of inputs that went whole into every sub-batch.
  virtual void set_unbatched_inputs(std::vector<std::string> /*names*/) {}
  virtual void put(std::size_t lane, RowRange rows, Part&& part) = 0;
  [[nodiscard]] virtual Result take() = 0;
};

/// Keeps the parts, sorts them by their rows and reduces them. Lanes never share memory.
template <typename Part, typename Result>
class OrderedSink final : public ResultSink<Part, Result> {
 public:
  using Reduce = std::function<Result(std::vector<Part>&&)>;
  explicit OrderedSink(Reduce reduce) : reduce_(std::move(reduce)) {}

  void begin(RowRange /*rows*/, std::size_t lanes) override {
    shelves_.clear();
    shelves_.resize(lanes);
  }
  void put(std::size_t lane, RowRange rows, Part&& part) override {
    shelves_[lane].kept.push_back({rows.begin, std::move(part)});
  }
  [[nodiscard]] Result take() override {
    std::vector<Kept*> order;
    for (Shelf& shelf : shelves_) {
      for (Kept& kept : shelf.kept) order.push_back(&kept);
    }
    std::ranges::sort(order, {}, [](const Kept* kept) { return kept->row; });
    std::vector<Part> parts;
    parts.reserve(order.size());
    for (Kept* kept : order) parts.push_back(std::move(kept->part));
    shelves_.clear();
    return reduce_(std::move(parts));
  }

 private:
  struct Kept {
    std::size_t row;
    Part part;
  };
  // A cache line of its own, so that lanes do not slow each other down.
  struct alignas(64) Shelf {
    std::vector<Kept> kept;
  };
  Reduce reduce_;
  std::vector<Shelf> shelves_;
};

}  // namespace harmonics::inline in_dispatch
