// Generator: many sequences through one row of stages, each as if it were alone.
//
// Decoding sequences share steps, and prompts go in piece by piece beside them. Which sequences
// share a step changes no bit of any of them: see token_stage.h.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/schedule/token_pipeline.h>
#include <harmonics/text/sampling.h>

namespace harmonics::inline in_schedule {

struct GeneratedToken {
  std::int64_t id = 0;
  /// The logarithm of its probability, where it was asked for; and the most likely ones.
  double logprob = 0;
  std::vector<TokenChoice> likeliest = {};
};

enum class Ending {
  kEndToken,   // one of the request's end_ids, which is not handed on
  kMaxTokens,  // as many as were asked for
  kFull,       // the model takes no longer sequence
  kEnough,     // the listener said so, or it was cancelled
};
/// "end", "max tokens", "context full", "stopped".
[[nodiscard]] std::string_view ending_name(Ending ending);

struct GenerationRequest {
  /// At least one id.
  std::vector<std::int64_t> prompt;
  SamplingOptions sampling = {};
  std::int64_t max_tokens = 256;
  std::vector<std::int64_t> end_ids = {};
  bool logprobs = false;
  /// Whose it is: while requests wait, owners take turns, however many each of them has.
  std::string owner = {};
  /// How many of the most likely tokens are told of each.
  std::size_t likeliest = 0;
  /// Hears of each token; false: that is enough.
  std::function<bool(const GeneratedToken&)> on_token = {};
  /// Hears of the end, once.
  std::function<void(Ending)> on_end = {};
};

struct GeneratorOptions {
  /// Sequences that are computed at the same time; more wait.
  std::size_t max_sequences = 16;
  /// Requests that may wait; a further one is an Error (kResourceExhausted).
  std::size_t max_waiting = 256;
  /// Tokens of prompts in one step.
  std::int64_t prefill_chunk = 128;
  /// How often in a row stages are renewed before their Error is handed on.
  int max_renewals = 3;
};

struct GeneratorFigures {
  std::size_t running = 0;
  std::size_t waiting = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t made_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t renewals = 0;
  /// Tokens that were computed a second time after a loss.
  std::uint64_t replayed_tokens = 0;
  std::int64_t reserved_tokens = 0;
};

/// One thread at a time; listeners are called on it, from `advance`, and may cancel but not add.
class Generator {
 public:
  using RequestId = std::uint64_t;

  Generator(TokenPipeline& pipeline, const GeneratorOptions& options);
  ~Generator();

  /// A prompt that is empty or leaves no room in the model or its cache is an Error.
  RequestId add(GenerationRequest request);
  /// Ends a request; one that is not known has ended.
  void cancel(RequestId id);
  [[nodiscard]] bool idle() const;
  /// Hands in what can be handed in and waits for one answer. An Error of the stages that renewing
  /// them did not heal comes out here; all requests are gone then.
  void advance();
  [[nodiscard]] GeneratorFigures figures() const;

 private:
  struct Sequence;
  struct Flight;

  void admit();
  [[nodiscard]] std::size_t next_in_turn() const;
  void fill();
  [[nodiscard]] bool compose(Flight& flight, TokenStep& step);
  void take_span(Sequence& sequence, std::int64_t count, Flight& flight, TokenStep& step);
  void take_answer(const Flight& flight, const Tensor& logits);
  void take_token(Sequence& sequence, std::span<const float> logits);
  void finish(Sequence& sequence, Ending ending);
  void forget_finished();
  void renew(const std::exception_ptr& reason);
  [[nodiscard]] std::int64_t reserved_for(const Sequence& sequence) const;

  TokenPipeline& pipeline_;
  GeneratorOptions options_;
  GeneratorFigures figures_;
  SequenceId next_sequence_ = 1;
  RequestId next_request_ = 1;
  int renewals_ = 0;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in the order of their requests
  std::deque<Flight> flights_;
  std::vector<SequenceId> drops_;
  // When each owner's last request began, of those that have one here.
  std::map<std::string, std::uint64_t, std::less<>> turns_;
  std::uint64_t turn_ = 0;
};

}  // namespace harmonics::inline in_schedule
