// InferenceService: requests on one side, a stream of batches on the other.
//
// Fronts submit requests. Whoever conducts the stream fetches numbered batches, which the service
// makes of the requests that wait, and delivers what came out of them. A batch is kept until it was
// delivered: a stream that broke off fetches it again, and every request is answered exactly once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/serve/model_card.h>
#include <harmonics/serve/service_figures.h>

namespace harmonics::inline in_serve {

struct ServingTerms {
  /// The longest that a request waits for others to share a batch with.
  Nanoseconds max_wait = std::chrono::milliseconds(2);
  /// Rows that may wait; a request beyond them is refused.
  std::int64_t queue_rows = 1;
  /// The longest that a request may take in all.
  Nanoseconds request_deadline = std::chrono::seconds(30);
  /// Batches that may be fetched and not delivered.
  std::int64_t in_flight = 2;
  /// When nobody asks for so long, an empty batch goes through: parts that wait for one another
  /// hear from each other. Zero: never.
  Nanoseconds idle{};
  /// How often a batch goes into a stream that breaks before its requests are refused.
  int attempts = 3;
};

/// What became of a request.
struct InferenceAnswer {
  /// Of the request's own rows.
  TensorsByName outputs = {};
  std::optional<Error> error = std::nullopt;
};

/// A batch for the stream; what it holds never changes.
struct FormedBatch {
  std::int64_t number = 0;
  std::int64_t rows = 0;
  TensorsByName inputs = {};
};
using FormedBatchPtr = std::shared_ptr<const FormedBatch>;

enum class ServiceState { kStarting, kReady, kRecovering, kDraining, kOver };
[[nodiscard]] const char* service_state_name(ServiceState state);

/// Thread safe. Answers are handed over on the thread that delivers, expires or ends.
class InferenceService {
 public:
  using Done = std::function<void(InferenceAnswer)>;

  /// `clock` must outlive it.
  InferenceService(ModelCard card, const ServingTerms& terms, const Clock& clock);
  /// Whoever still waits is answered with an Error (kUnavailable).
  ~InferenceService();
  InferenceService(const InferenceService&) = delete;
  InferenceService& operator=(const InferenceService&) = delete;

  [[nodiscard]] const ModelCard& card() const;
  [[nodiscard]] ServiceState state() const;
  [[nodiscard]] ServiceFigures figures() const;

  /// `done` is called once, later. An Error at once, and no call: the request does not fit the
  /// model (kInvalidArgument), too many wait (kResourceExhausted), or the service is starting or
  /// ending (kUnavailable).
  void submit(InferenceRequest request, Done done);

  /// The batch of that number: one that was fetched before and not delivered, or the next, as soon
  /// as one is due. Nothing when the service was drained and all batches are out, or `stop` is
  /// asked for.
  [[nodiscard]] FormedBatchPtr fetch(std::int64_t number, const std::stop_token& stop);
  /// The outputs of the batch that is due, by its number.
  void deliver(std::int64_t number, const TensorsByName& outputs);
  /// How many batches were delivered.
  [[nodiscard]] std::int64_t delivered() const;
  /// The stream broke and will begin again at `delivered`. Requests that were in too many that
  /// broke are refused.
  void note_break(const std::string& why);

  /// Takes no more requests; those that are there are answered.
  void drain();
  /// Nobody fetches any more: answers all that wait with an Error.
  void end(const std::string& why);

  /// The numbers of rows that batches are filled up to (see docs/guides/serving.md); empty while
  /// the service starts, and where every request goes alone.
  [[nodiscard]] std::vector<std::int64_t> batch_sizes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_serve
