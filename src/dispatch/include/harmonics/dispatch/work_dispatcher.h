// WorkDispatcher: one big batch over every device that a scheduler knows.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/dispatch/engine.h>
#include <harmonics/dispatch/generator.h>
#include <harmonics/dispatch/results.h>
#include <harmonics/dispatch/scheduler.h>

namespace harmonics::inline in_dispatch {

/// The five functions of a dispatcher. `run` is needed; each of the others may be left out where
/// the types on both of its sides are the same.
template <typename Input, typename Output, typename Result, typename RawInput, typename Part>
struct WorkFunctions {
  /// Runs a sub-batch on a device.
  std::function<Output(Input&&, const WorkDevice&)> run = nullptr;
  /// Makes one result of the parts, which come in the order of their rows.
  std::function<Result(std::vector<Part>&&)> reduce = nullptr;
  /// Before a sub-batch runs: for instance, sends it to the device.
  std::function<Input(RawInput&&, const WorkDevice&)> preprocess = nullptr;
  /// After it ran: for instance, brings it back.
  std::function<Part(Output&&)> postprocess = nullptr;
  /// On each lane's thread, before the constructor returns.
  std::function<void(const WorkDevice&)> init_thread = nullptr;
  /// Instead of `reduce`: takes each part as it comes, for instance into its place in one large
  /// tensor.
  std::shared_ptr<ResultSink<Part, Result>> sink = nullptr;
};

/// Cuts the batch of a generator into sub-batches as its scheduler says and computes them on all
/// devices at once. Lanes, one thread per device (or per stream of it), claim rows themselves;
/// the caller only waits. Results are in order whatever the devices do.
///
///     SimpleScheduler scheduler("cpu", 345, 800);
///     WorkDispatcher<Slice, double, double> dispatcher(scheduler, {.run = work, .reduce = sum});
///     SliceGenerator slices(50, 2000);
///     double total = dispatcher.run(slices);
///
/// An exception of a function stops the scheduling; what is at work is finished, then it reaches
/// the caller as it was (several: one AggregateError), and the dispatcher can run again. Some
/// schedulers put rows elsewhere instead when a device is lost or out of memory; otherwise that
/// error names device and rows.
///
/// Threads: one thread calls the members; functions are called on the lanes, for one device by
/// one thread at a time unless it has several lanes (DispatchOptions). The scheduler stays the
/// caller's and outlives the dispatcher.
template <typename Input, typename Output, typename Result = std::vector<Output>,
          typename RawInput = Input, typename Part = Output>
class WorkDispatcher {
 public:
  using Functions = WorkFunctions<Input, Output, Result, RawInput, Part>;

  /// Missing functions are an Error (kInvalidArgument) that names them.
  WorkDispatcher(WorkScheduler& scheduler, Functions functions, DispatchOptions options = {})
      : job_(checked(std::move(functions))),
        engine_(scheduler, std::move(options), job_.functions.init_thread) {
    job_.timeline = &engine_.timeline();
  }
  WorkDispatcher(const WorkDispatcher&) = delete;
  WorkDispatcher& operator=(const WorkDispatcher&) = delete;

  /// Computes what `generator` has not given out yet, and moves it to its end. No rows left is an
  /// Error (kInvalidArgument).
  Result run(WorkGenerator<RawInput>& generator, RunOptions options = {}) {
    start(generator, std::move(options));
    return finish(generator);
  }

  /// Begins the same and returns at once; `get` waits, and throws what `run` would. The generator
  /// must live until then. A second run before that is an Error (kFailedPrecondition).
  ///
  /// A future that is dropped instead (also by an exception between) ends the run: its destructor
  /// waits for the sub-batches at work, no further ones begin, nobody reads the generator any more,
  /// and the dispatcher can run again. So does the destructor of the dispatcher; `get` of a future
  /// that outlives it is an Error (kCancelled).
  [[nodiscard]] std::future<Result> submit(WorkGenerator<RawInput>& generator,
                                           RunOptions options = {}) {
    start(generator, std::move(options));
    return std::async(std::launch::deferred,
                      [run = Underway(self_.here), &generator]() mutable -> Result {
                        return run.end().finish(generator);
                      });
  }

 private:
  // Where a future finds the dispatcher: null once that is gone.
  using Whereabouts = std::shared_ptr<WorkDispatcher*>;

  struct Self {
    explicit Self(WorkDispatcher* dispatcher)
        : here(std::make_shared<WorkDispatcher*>(dispatcher)) {}
    ~Self() { *here = nullptr; }
    Self(const Self&) = delete;
    Self& operator=(const Self&) = delete;
    Whereabouts here;
  };

  // A run whose result nobody has asked for yet.
  class Underway {
   public:
    explicit Underway(Whereabouts where) : where_(std::move(where)) {}
    Underway(Underway&&) noexcept = default;
    ~Underway() {
      if (where_ && *where_ != nullptr) (*where_)->give_up();
    }
    // The result is asked for, once: from now on the dispatcher answers for the run.
    WorkDispatcher& end() {
      const Whereabouts where = std::exchange(where_, nullptr);
      if (*where == nullptr) {
        fail(ErrorCode::kCancelled, "the dispatcher was destroyed before its result was asked for");
      }
      return **where;
    }

   private:
    Whereabouts where_;
  };

  struct Job final : DispatchJob {
    explicit Job(Functions given) : functions(std::move(given)) {}
    void run(const WorkDevice& device, std::size_t lane, RowRange rows, ChunkPhases* phases,
             ChunkGate* gate) override {
      RawInput raw = generator->rows(rows);
      if (gate != nullptr) gate->loaded();
      Input input = prepare(std::move(raw), device);
      if (phases != nullptr) phases->prepared = timeline->now();
      Output output = functions.run(std::move(input), device);
      if (phases != nullptr) phases->computed = timeline->now();
      if (functions.postprocess) {
        keep(lane, rows, functions.postprocess(std::move(output)), gate);
      } else if constexpr (std::is_same_v<Output, Part>) {
        keep(lane, rows, std::move(output), gate);
      }
    }
    void keep(std::size_t lane, RowRange rows, Part&& part, ChunkGate* gate) {
      if (gate == nullptr || gate->commit()) functions.sink->put(lane, rows, std::move(part));
    }
    [[nodiscard]] Input prepare(RawInput&& raw, const WorkDevice& device) const {
      if constexpr (std::is_same_v<Input, RawInput>) {
        if (!functions.preprocess) return std::move(raw);
      }
      return functions.preprocess(std::move(raw), device);
    }

    Functions functions;
    const WorkGenerator<RawInput>* generator = nullptr;
    const Timeline* timeline = nullptr;
  };

  static void need(bool there, const char* name, const char* types) {
    if (there) return;
    fail(ErrorCode::kInvalidArgument, "a dispatcher lacks its function '{}', which {}", name,
         types);
  }

  static Job checked(Functions given) {
    need(given.run != nullptr, "run", "is always needed");
    need(given.preprocess || std::is_same_v<Input, RawInput>, "preprocess",
         "is needed where the generator's type is not the input's");
    need(given.postprocess || std::is_same_v<Output, Part>, "postprocess",
         "is needed where the output's type is not the part's");
    if (!given.sink && !given.reduce) {
      if constexpr (std::is_same_v<Result, std::vector<Part>>) {
        given.reduce = [](std::vector<Part>&& parts) { return std::move(parts); };
      }
    }
    need(given.sink || given.reduce, "reduce", "is needed where the result is no list of parts");
    if (!given.sink) given.sink = std::make_shared<OrderedSink<Part, Result>>(given.reduce);
    return Job(std::move(given));
  }

  void start(WorkGenerator<RawInput>& generator, RunOptions options) {
    if (started_) {
      fail(ErrorCode::kFailedPrecondition,
           "a run of this dispatcher is still under way: get its result first");
    }
    const RowRange rows{generator.offset(), generator.size()};
    if (rows.size() == 0) {
      fail(ErrorCode::kInvalidArgument,
           "the generator has no rows left: rewind() it, or make one with rows");
    }
    job_.generator = &generator;
    job_.functions.sink->set_unbatched_inputs(generator.unbatched());
    job_.functions.sink->begin(rows, engine_.lane_count());
    started_ = true;
    try {
      engine_.start(job_, rows, std::move(options));
    } catch (...) {
      started_ = false;
      throw;
    }
  }

  Result finish(WorkGenerator<RawInput>& generator) {
    started_ = false;
    engine_.wait();
    generator.rewind(generator.size());
    return job_.functions.sink->take();
  }

  void give_up() {
    started_ = false;
    engine_.cancel();
  }

  Job job_;
  bool started_ = false;
  DispatchEngine engine_;
  Self self_{this};
};

}  // namespace harmonics::inline in_dispatch
