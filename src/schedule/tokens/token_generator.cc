#include <harmonics/schedule/token_generator.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::int64_t kRounding = 16;  // caches give room in blocks

}  // namespace

/// One request on its way.
struct Generator::Sequence {
  RequestId request = 0;
  SequenceId id = 0;
  GenerationRequest asked;
  std::uint64_t key = 0;
  std::vector<std::int64_t> tokens;  // prompt and what followed
  std::int64_t handed = 0;           // tokens that went into the stages
  std::int64_t made = 0;
  bool awaits = false;  // its next token is being computed
  bool over = false;
};

/// A step whose answer is due: the sequences whose logits it brings, row by row.
struct Generator::Flight {
  std::vector<SequenceId> wanted;
};

std::string_view ending_name(Ending ending) {
  switch (ending) {
    case Ending::kEndToken: return "end";
    case Ending::kMaxTokens: return "max tokens";
    case Ending::kFull: return "context full";
    case Ending::kEnough: return "stopped";
  }
  return "unknown";
}

Generator::Generator(TokenPipeline& pipeline, const GeneratorOptions& options)
    : pipeline_(pipeline), options_(options) {}
Generator::~Generator() = default;

std::int64_t Generator::reserved_for(const Sequence& sequence) const {
  const auto all =
      static_cast<std::int64_t>(sequence.asked.prompt.size()) + sequence.asked.max_tokens;
  const std::int64_t most = std::min(all, pipeline_.limits().max_length);
  return (most + kRounding - 1) / kRounding * kRounding;
}

Generator::RequestId Generator::add(GenerationRequest request) {
  request.sampling.check();
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  const TokenLimits& limits = pipeline_.limits();
  if (length < 1 || request.max_tokens < 1) {
    fail(ErrorCode::kInvalidArgument,
         "a prompt of {} tokens and {} to make: there must be one of each at least", length,
         request.max_tokens);
  }
  if (length >= limits.max_length) {
    fail(ErrorCode::kOutOfRange, "the prompt has {} tokens, the model takes {} with the answer",
         length, limits.max_length);
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->key = sampling_key(request.sampling.seed, request.prompt);
  sequence->tokens = request.prompt;
  sequence->asked = std::move(request);
  if (reserved_for(*sequence) > limits.most_tokens) {
    fail(ErrorCode::kResourceExhausted,
         "the prompt of {} tokens and {} to make need a cache for {}; there is room for {}: give "
         "the cache more memory, or ask for fewer tokens",
         length, sequence->asked.max_tokens, reserved_for(*sequence), limits.most_tokens);
  }
  if (waiting_.size() >= options_.max_waiting) {
    fail(ErrorCode::kResourceExhausted, "{} requests wait already, the most that may: try later",
         waiting_.size());
  }
  sequence->request = next_request_++;
  waiting_.push_back(std::move(sequence));
  return next_request_ - 1;
}

void Generator::cancel(RequestId id) {
  for (const auto* list : {&running_}) {
    for (const auto& sequence : *list) {
      if (sequence->request == id && !sequence->over) finish(*sequence, Ending::kEnough);
    }
  }
  const auto found =
      std::ranges::find(waiting_, id, [](const auto& each) { return each->request; });
  if (found == waiting_.end()) return;
  const std::unique_ptr<Sequence> sequence = std::move(*found);
  waiting_.erase(found);
  if (sequence->asked.on_end) sequence->asked.on_end(Ending::kEnough);
}

bool Generator::idle() const { return waiting_.empty() && running_.empty() && flights_.empty(); }

// Of all who wait, the one whose owner has the fewest running and, among these, began one the
// longest ago; an owner's own come in their order.
std::size_t Generator::next_in_turn() const {
  std::map<std::string_view, std::size_t> counts;
  for (const auto& sequence : running_) ++counts[sequence->asked.owner];
  const auto rank = [&](const Sequence& sequence) {
    const std::string& owner = sequence.asked.owner;
    const auto running = counts.find(owner);
    const auto turn = turns_.find(owner);
    return std::pair(running == counts.end() ? 0 : running->second,
                     turn == turns_.end() ? 0 : turn->second);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < waiting_.size(); ++i) {
    if (rank(*waiting_[i]) < rank(*waiting_[best])) best = i;
  }
  return best;
}

void Generator::admit() {
  while (!waiting_.empty() && running_.size() < options_.max_sequences) {
    const auto place = waiting_.begin() + static_cast<std::ptrdiff_t>(next_in_turn());
    Sequence& next = **place;
    const std::int64_t needs = reserved_for(next);
    if (figures_.reserved_tokens + needs > pipeline_.limits().most_tokens) return;
    figures_.reserved_tokens += needs;
    figures_.prompt_tokens += next.asked.prompt.size();
    next.id = next_sequence_++;
    turns_[next.asked.owner] = ++turn_;
    running_.push_back(std::move(*place));
    waiting_.erase(place);
  }
}

void Generator::take_span(Sequence& sequence, std::int64_t count, Flight& flight, TokenStep& step) {
  const auto end = sequence.handed + count;
  const bool whole = end == static_cast<std::int64_t>(sequence.tokens.size());
  step.spans.push_back({sequence.id, sequence.handed, count, whole ? 1 : 0});
  step.ids.insert(step.ids.end(), sequence.tokens.begin() + sequence.handed,
                  sequence.tokens.begin() + end);
  sequence.handed = end;
  if (!whole) return;
  sequence.awaits = true;
  flight.wanted.push_back(sequence.id);
}

// Sequences that decode, then pieces of prompts; of the former a share, so that each stage of the
// row has some.
bool Generator::compose(Flight& flight, TokenStep& step) {
  const std::size_t depth = pipeline_.depth();
  const std::size_t share = (running_.size() + depth - 1) / depth;
  std::int64_t left = options_.prefill_chunk;
  for (const bool decodes : {true, false}) {
    for (const auto& sequence : running_) {
      const auto behind = static_cast<std::int64_t>(sequence->tokens.size()) - sequence->handed;
      if (sequence->over || sequence->awaits || behind == 0) continue;
      const bool single = sequence->made > 0 && behind == 1;
      if (single != decodes) continue;
      if (decodes && flight.wanted.size() >= share) break;
      if (!decodes && left == 0) break;
      const std::int64_t count = decodes ? 1 : std::min(behind, left);
      if (!decodes) left -= count;
      take_span(*sequence, count, flight, step);
    }
  }
  return !step.spans.empty();
}

void Generator::fill() {
  while (flights_.size() < pipeline_.depth()) {
    Flight flight;
    TokenStep step;
    if (!compose(flight, step)) return;
    step.drops = std::exchange(drops_, {});
    flights_.push_back(std::move(flight));
    pipeline_.submit(step);
    ++figures_.steps;
  }
}

void Generator::finish(Sequence& sequence, Ending ending) {
  sequence.over = true;
  if (sequence.asked.on_end) sequence.asked.on_end(ending);
}

// A sequence is dropped once nothing of it is in flight: its id is never used again.
void Generator::forget_finished() {
  std::erase_if(running_, [&](const std::unique_ptr<Sequence>& sequence) {
    if (!sequence->over) return false;
    drops_.push_back(sequence->id);
    figures_.reserved_tokens -= reserved_for(*sequence);
    return true;
  });
  if (waiting_.empty()) turns_.clear();
}

void Generator::take_token(Sequence& sequence, std::span<const float> logits) {
  sequence.awaits = false;
  const GenerationRequest& asked = sequence.asked;
  const auto position = static_cast<std::int64_t>(sequence.tokens.size());
  GeneratedToken token{choose_token(logits, asked.sampling, sequence.key, position)};
  if (std::ranges::find(asked.end_ids, token.id) != asked.end_ids.end()) {
    return finish(sequence, Ending::kEndToken);
  }
  if (asked.logprobs) token.logprob = logprob_of(logits, token.id);
  if (asked.likeliest > 0) token.likeliest = likeliest_tokens(logits, asked.likeliest);
  sequence.tokens.push_back(token.id);
  ++sequence.made;
  ++figures_.made_tokens;
  if (asked.on_token && !asked.on_token(token)) return finish(sequence, Ending::kEnough);
  if (sequence.over) return;  // cancelled by its listener
  if (sequence.made >= asked.max_tokens) return finish(sequence, Ending::kMaxTokens);
  if (position + 1 >= pipeline_.limits().max_length) return finish(sequence, Ending::kFull);
}

void Generator::take_answer(const Flight& flight, const Tensor& logits) {
  const std::span<const float> all = logits.values<float>();
  const std::size_t width = flight.wanted.empty() ? 0 : all.size() / flight.wanted.size();
  for (std::size_t row = 0; row < flight.wanted.size(); ++row) {
    const auto found = std::ranges::find(running_, flight.wanted[row],
                                         [](const auto& sequence) { return sequence->id; });
    if (found == running_.end() || (*found)->over) continue;
    take_token(**found, all.subspan(row * width, width));
  }
}

void Generator::renew(const std::exception_ptr& reason) {
  try {
    std::rethrow_exception(reason);
  } catch (const Error& error) {
    log_warn("schedule", "the stages of a generation are made anew: {}", error.what());
  }
  if (++renewals_ > options_.max_renewals) {
    running_.clear();
    waiting_.clear();
    std::rethrow_exception(reason);
  }
  pipeline_.renew();
  ++figures_.renewals;
  flights_.clear();
  drops_.clear();
  for (const auto& sequence : running_) {
    figures_.replayed_tokens += static_cast<std::uint64_t>(sequence->handed);
    sequence->id = next_sequence_++;
    sequence->handed = 0;
    sequence->awaits = false;
  }
}

void Generator::advance() {
  admit();
  try {
    fill();
    if (flights_.empty()) return forget_finished();
    const Tensor logits = pipeline_.receive();
    renewals_ = 0;
    const Flight flight = std::move(flights_.front());
    flights_.pop_front();
    take_answer(flight, logits);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kAborted &&
        error.code() != ErrorCode::kDeadlineExceeded) {
      running_.clear();
      waiting_.clear();
      throw;
    }
    renew(std::current_exception());
  }
  forget_finished();
  figures_.running = running_.size();
  figures_.waiting = waiting_.size();
}

GeneratorFigures Generator::figures() const {
  GeneratorFigures all = figures_;
  all.running = running_.size();
  all.waiting = waiting_.size();
  return all;
}

}  // namespace harmonics::inline in_schedule
