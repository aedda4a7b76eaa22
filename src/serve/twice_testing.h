// For tests: a service whose model doubles numbers, and the stream that computes it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <harmonics/serve/inference_service.h>

namespace harmonics::inline in_serve {

/// x of `width` floats, y twice as much.
inline ModelCard twice_card(std::int64_t rows = 4, std::int64_t width = 2) {
  return {
      "twice", {{"x", {{width}, DType::kFloat32}}}, {{"y", {{width}, DType::kFloat32}}}, {}, rows};
}

inline InferenceRequest twice_request(float value, std::int64_t rows = 1, std::int64_t width = 2) {
  InferenceRequest request;
  Tensor x = Tensor::zeros({rows, width});
  for (float& number : x.mutable_values<float>()) number = value++;
  request.inputs.emplace("x", std::move(x));
  return request;
}

inline TensorsByName doubled(const FormedBatch& batch) {
  const Tensor& x = batch.inputs.find("x")->second;
  Tensor y = Tensor::zeros(x.shape());
  for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
    y.mutable_values<float>()[i] = 2 * x.values<float>()[i];
  }
  return {{"y", y}};
}

/// Takes the service through its start.
inline void start_by_hand(InferenceService& service) {
  while (service.state() == ServiceState::kStarting) {
    const FormedBatchPtr batch = service.fetch(service.delivered(), {});
    service.deliver(batch->number, doubled(*batch));
  }
}

/// Computes until the service is drained, on a thread of its own.
class TwiceStream {
 public:
  explicit TwiceStream(InferenceService& service)
      : service_(service), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~TwiceStream() { service_.drain(); }
  TwiceStream(const TwiceStream&) = delete;
  TwiceStream& operator=(const TwiceStream&) = delete;

  /// From now on batches are computed only after `go`.
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void go() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

 private:
  void run(const std::stop_token& stop) {
    while (const FormedBatchPtr batch = service_.fetch(service_.delivered(), stop)) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [&] { return !held_; });
      }
      service_.deliver(batch->number, doubled(*batch));
    }
  }

  InferenceService& service_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool held_ = false;
  std::jthread thread_;
};

/// What became of one request.
class Outcome {
 public:
  [[nodiscard]] InferenceService::Done done() {
    return [this](InferenceAnswer answer) {
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
      changed_.notify_all();
    };
  }
  /// Waits for it; nothing after ten seconds.
  [[nodiscard]] std::optional<InferenceAnswer> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return !answers_.empty(); });
    if (answers_.empty()) return std::nullopt;
    return answers_.front();
  }
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<InferenceAnswer> answers_;
};

}  // namespace harmonics::inline in_serve
