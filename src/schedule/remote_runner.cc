#include "remote_runner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>

namespace harmonics {
namespace {

// How long a part that has failed goes on for its neighbours' sake.
constexpr Nanoseconds kFarewell = std::chrono::seconds(3);

}  // namespace

RemoteRunner::RemoteRunner(Peers peers, PartRecord own, const RemoteOptions& options)
    : peers_(std::move(peers)), own_(std::move(own)), options_(options) {}

RemoteRunner::~RemoteRunner() {
  if (map_ && stopped_by_.empty()) peers_.close(options_.closing);
}

void RemoteRunner::abandon(const std::string& why) {
  if (!stopped_by_.empty()) return;
  stopped_by_ = why;
  // A closed boundary is certain to be noticed, an abandoned one only if its link holds out.
  if (map_) peers_.close(std::min<Nanoseconds>(options_.closing, kFarewell));
  peers_.abandon();
}

void RemoteRunner::check_alive() const {
  if (stopped_by_.empty()) return;
  fail(ErrorCode::kFailedPrecondition,
       "part '{}' has stopped ({}); make a new scheduler and go on from a checkpoint", own_.name,
       stopped_by_);
}

void RemoteRunner::meet(std::uint64_t step) {
  begun_ = true;
  own_.steps = static_cast<std::int64_t>(step);
  PartMap map = peers_.meet(own_, options_.first_contact);
  if (map.learns()) map.check_gradients();
  width_ = map.diameter();
  depth_ = map.depth_of(own_);
  log_info("schedule", "part '{}' has met {} others", own_.name, map.parts().size() - 1);
  map_ = std::move(map);
}

bool RemoteRunner::await_batch(std::uint64_t step) {
  check_alive();
  // The caller may have changed threads since the last batch.
  use_compute_threads(options_.runtime.threads);
  if (!map_) meet(step);
  step_ = step;
  head_.reset();
  StageEnds& ends = peers_.ends();
  std::size_t ended = 0;
  for (const auto& [name, end] : ends.entering) {
    std::optional<Message> message = end->receive(deadline_in(patience()));
    if (!message) {
      fail(ErrorCode::kUnavailable, "boundary '{}': the part that sends it has closed", name);
    }
    if (message->kind == MessageKind::kEpochEnd) {
      ++ended;
      continue;
    }
    const BatchHead head = decode_batch_head(message->attachment);
    if (head_ && *head_ != head) {
      fail(ErrorCode::kInvalidArgument,
           "boundary '{}' brings a batch of {} rows, another boundary one of {}", name,
           head.batch_samples, head_->batch_samples);
    }
    head_ = head;
    ends.taken.emplace(name, std::move(*message));
  }
  if (ended > 0 && head_) {
    fail(ErrorCode::kInvalidArgument,
         "the epoch of part '{}' ends on {} of {} boundaries only: the data of all parts must be "
         "equally long",
         own_.name, ended, ends.entering.size());
  }
  return ended == 0;
}

std::int64_t RemoteRunner::rows(const NamedTensors& data) const {
  if (!head_) return batch_rows(data);
  if (!data.empty() && batch_rows(data) != head_->batch_samples) {
    fail(ErrorCode::kInvalidArgument,
         "the data of producer '{}' brings {} rows, the other parts work on {}: give all parts the "
         "same batch size",
         data.begin()->first, batch_rows(data), head_->batch_samples);
  }
  return head_->batch_samples;
}

SliceResults RemoteRunner::run(std::span<Stage> stages, const SlicedBatch& batch) {
  check_alive();
  const auto count = static_cast<std::uint32_t>(batch.micro_batches.size());
  if (head_ && head_->micro_batches != count) {
    fail(ErrorCode::kInvalidArgument, "the other parts cut the batch in {}, this one in {}",
         head_->micro_batches, count);
  }
  const auto passes = pipeline_passes(options_.pipeline.order, count, depth_);
  return StageDriver(stages.front(), peers_.ends(), patience()).run(passes, batch, {});
}

NamedTensors RemoteRunner::infer(std::span<Stage> stages, const NamedTensors& data) {
  check_alive();
  StageEnds& ends = peers_.ends();
  NamedTensors received;
  for (auto& [name, message] : ends.taken) received.emplace(name, std::move(message.tensor));
  ends.taken.clear();
  Stage& stage = stages.front();
  NamedTensors outputs = stage.infer(part_inputs(stage.graph(), data, received));
  const Bytes head = encode(BatchHead{rows(data), 1});
  for (const auto& [name, end] : ends.leaving) {
    auto leaving = outputs.extract(name);
    end->send({MessageKind::kActivation, step_, 0, cpu_tensor(leaving.mapped()), head},
              deadline_in(patience()));
  }
  return outputs;
}

void RemoteRunner::for_each(std::span<Stage> stages,
                            const std::function<void(std::size_t, Stage&)>& visit) {
  for (std::size_t part = 0; part < stages.size(); ++part) visit(part, stages[part]);
}

std::map<std::string, double> RemoteRunner::all_square_sums(std::map<std::string, double> own,
                                                            std::uint64_t step) {
  Notice notice;
  for (const auto& [name, square] : own) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(double)>>(square);
    notice.emplace(name, std::string(bytes.begin(), bytes.end()));
  }
  std::map<std::string, double> all;
  for (const auto& [name, text] : peers_.spread(std::move(notice), step, width_, patience())) {
    ByteReader in(bytes_of(text), "square sum");
    all.emplace(name, in.number<double>());
  }
  return all;
}

void RemoteRunner::end_epoch() {
  check_alive();
  for (const auto& [name, end] : peers_.ends().leaving) {
    end->send({MessageKind::kEpochEnd, step_, 0, {}, {}}, deadline_in(patience()));
  }
}

}  // namespace harmonics
