// Plans for a language model that generates: which layers on which host, and how many sequences
// share a step.
//
// M sequences are in flight, each with a prompt of P tokens and an answer up to N tokens in all.
// They go round in G steps of b = ceil(M / G) sequences: a step passes all stages and comes back
// as b new tokens. With the times of a step of b sequences:
//   period     the slowest stage or link, as cost_model.h has it with full overlap
//   way        all stages and links of a step, one after another, latencies included
//   cycle      max(G * period, way): in which each sequence gets a token; M / cycle tokens a second
//   memory     of a stage: its weights, and for each of the M sequences the cache of N tokens
//              (whole blocks of kCacheBlockTokens), and the buffers of cost_model.h for the step
//              that the goal is about: for kFirstToken a chunk, else a step of decoding
// A prompt goes in as K = ceil(P / chunk) chunks of equal length, one behind another, G of them
// under way at most. With the times of a chunk:
//   first token   way + max((K - 1) * period, q * way + r * period), K - 1 = q * G + r
// What leaves the last stage are the logits, which whoever generates takes at that host's own
// bandwidth. Sequences hold (P + N) / 2 tokens while they decode, a chunk finds P / 2.
//
// Between measured numbers of sequences (or tokens of a chunk) and measured contexts times are
// linear, beyond the outermost two on the same line; one number of sequences alone counts in
// proportion, one context alone for all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/request.h>

namespace harmonics::inline in_plan {

inline constexpr std::int64_t kCacheBlockTokens = 16;
inline constexpr std::int64_t kMaxPlannedContext = 1 << 20;
inline constexpr std::int64_t kMaxPlannedSequences = 4096;
/// The most steps that a plan asks to have under way.
inline constexpr std::int64_t kMaxStepsInFlight = 64;
/// Measurements of generation stand under the model's name with this behind it.
inline constexpr std::string_view kGenerationSuffix = "-generation";

enum class GenerationGoal {
  /// Most tokens a second.
  kTokens,
  /// The first token of an answer soonest.
  kFirstToken,
  /// The first token soonest among the plans that lose no more than a share of the tokens a second.
  kBoth,
};
/// "tokens", "first-token", "both".
[[nodiscard]] std::string_view generation_goal_name(GenerationGoal goal);

/// What is to be generated, and where.
struct GenerationWish {
  /// The model, pins, order and excluded hosts; its batch size and dtype are not looked at.
  PlanRequest hosts = {};
  std::int64_t context = 2048;
  std::int64_t sequences = 16;
  /// Tokens of the prompt; 0: half the context.
  std::int64_t prompt = 0;
  std::int64_t chunk = 128;
};

struct GenerationOptions {
  GenerationGoal goal = GenerationGoal::kTokens;
  /// For kBoth: the share of the tokens a second that may be lost.
  double tolerance = 0.1;
  int buffers_in = 2;
  int buffers_out = 2;
  /// Steps of work of one question to the search; 0: the default.
  std::uint64_t work = 0;
};

/// What a plan does; see the top of the file.
struct GenerationFigures {
  std::int64_t sequences = 0;
  std::int64_t in_flight = 0;
  std::int64_t step_sequences = 0;
  double period_s = 0;
  double way_s = 0;
  double cycle_s = 0;
  std::int64_t chunks = 0;
  double chunk_period_s = 0;
  double chunk_way_s = 0;
  double first_token_s = 0;

  [[nodiscard]] double tokens_per_s() const { return static_cast<double>(sequences) / cycle_s; }
};

struct GenerationOutcome {
  Placement placement;
  GenerationFigures figures;
  /// Of the goal, in seconds: the cycle, or the time to the first token.
  double value_s = 0;
  /// No plan has a smaller one.
  double lower_bound_s = 0;
  bool proven = false;
  /// For kBoth: the shortest cycle of all plans, and whether it is that.
  double least_cycle_s = 0;
  bool least_cycle_proven = false;
  /// Steps of work done.
  std::uint64_t work = 0;
};

/// The times of steps over one set of files. Keeps copies of what it needs; one thread at a time.
class GenerationModel {
 public:
  /// Device types that were not measured are left out with a warning. A model without measurements
  /// or without `cache_bytes`, numbers out of range and hosts that share a machine are an `Error`.
  GenerationModel(const PlanInputs& inputs, const GenerationWish& wish);

  [[nodiscard]] const GenerationWish& wish() const { return wish_; }
  /// The files of the hosts that take part.
  [[nodiscard]] const PlanInputs& inputs() const { return inputs_; }
  [[nodiscard]] std::size_t layers() const { return model_.layers(); }
  /// Megabytes of caches, in all layers, of so many sequences.
  [[nodiscard]] double cache_mb(std::int64_t sequences) const;
  /// The model as the plan names it.
  [[nodiscard]] std::string name() const;

  /// A step of so many sequences as a problem of the planner; memory is that of all sequences.
  /// With `answers`, one more layer at the end stands for whoever generates, on a host of a class
  /// of its own, the last one.
  [[nodiscard]] PlanProblem decode_step(std::int64_t step_sequences, bool answers) const;
  /// A chunk of a prompt, likewise.
  [[nodiscard]] PlanProblem prefill_step(bool answers) const;
  [[nodiscard]] std::int64_t chunks() const;

 private:
  [[nodiscard]] PlanProblem problem(std::int64_t rows, bool answers, bool decodes) const;

  GenerationWish wish_;
  PlanInputs inputs_;  // of the hosts that take part
  ModelProfile model_;
};

/// The best plan for the goal. Throws NoFeasiblePlan where no hosts have the memory, and says how
/// many sequences they have room for.
[[nodiscard]] GenerationOutcome plan_generation(const GenerationModel& model,
                                                const GenerationOptions& options);

/// Of fewer than the request's sequences the most for which there is a plan; 0: not even for one.
[[nodiscard]] std::int64_t most_sequences(const PlanInputs& inputs, const GenerationWish& wish,
                                          const GenerationOptions& options);

/// A plan with what there is to say of it.
struct GenerationReport {
  std::string model;
  GenerationWish wish;
  GenerationOptions options;
  GenerationOutcome outcome;
  Plan plan;
  struct Stage {
    std::string type;
    /// Of a step, with the latency and what arrives when, and of a chunk.
    StageCosts decode;
    StageCosts prefill;
    double cache_bytes = 0;
    std::string binds;
  };
  std::vector<Stage> stages;
  /// CPU seconds that planning took.
  double plan_seconds = 0;
  /// In words: what binds, and what other numbers of sequences would do; empty: nobody asked.
  std::vector<std::string> explanation = {};
};
[[nodiscard]] GenerationReport make_generation_report(const GenerationModel& model,
                                                      const GenerationOptions& options,
                                                      const GenerationOutcome& outcome);
/// Sentences for `explanation`; plans anew for half and twice the sequences.
[[nodiscard]] std::vector<std::string> explain_generation(const GenerationModel& model,
                                                          const GenerationReport& report);
[[nodiscard]] std::string generation_to_text(const GenerationReport& report);
/// A report of a plan that parse_plan_file reads.
[[nodiscard]] Json generation_to_json(const GenerationReport& report);

}  // namespace harmonics::inline in_plan
