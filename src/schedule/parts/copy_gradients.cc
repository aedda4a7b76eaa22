#include "copy_gradients.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include <harmonics/base/byte_fields.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::size_t kMostGradients = std::size_t{1} << 20;
constexpr std::size_t kLongestName = 4096;

/// What precedes the tensors of a share, in the order of their names.
struct ShareHead {
  TapReport taps;
  std::uint64_t ends_after = 0;
  std::vector<std::string> names;
};

constexpr auto kShareFields = [](auto& a, auto& head) {
  a.number(head.taps.loss_sum);
  a.number(head.taps.judged);
  a.number(head.taps.correct);
  a.number(head.ends_after);
  a.list(head.names, kMostGradients, sizeof(std::uint32_t),
         [&](auto& name) { a.text(name, kLongestName); });
};

// What came over a link may lie in memory that is not this process's to change.
Tensor copied(const Tensor& tensor) {
  Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype());
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  return copy;
}

template <typename Number>
void add_numbers(Tensor& sum, const Tensor& more) {
  const std::span<Number> to = sum.mutable_values<Number>();
  const std::span<const Number> from = more.values<Number>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

void add(NamedTensors& sum, NamedTensors&& more) {
  for (auto& [name, tensor] : more) {
    const auto known = sum.find(name);
    if (known == sum.end()) {
      sum.emplace(name, std::move(tensor));
    } else if (tensor.shape() != known->second.shape() || tensor.dtype() != known->second.dtype()) {
      fail(ErrorCode::kDataLoss, "the gradient of '{}' is {} in one copy and {} in another", name,
           shape_text(known->second.shape()), shape_text(tensor.shape()));
    } else if (tensor.dtype() == DType::kFloat64) {
      add_numbers<double>(known->second, tensor);
    } else {
      add_numbers<float>(known->second, tensor);
    }
  }
}

}  // namespace

void CopyGradients::check(const HarmonicGraph& part) {
  for (const LayerNode& layer : part.layers()) {
    if (layer.type != "batch_norm") continue;
    fail(ErrorCode::kUnimplemented,
         "part '{}' has copies, and its layer '{}' keeps running statistics, which follow the "
         "micro-batches one after another: plan one host for it, or use another norm",
         part.name(), layer.name);
  }
}

void CopyGradients::take(const MicroBatch& micro_batch, Stage& stage) {
  NamedTensors gradients = stage->gradients();
  NamedTensors none;
  for (const auto& [name, tensor] : gradients) {
    none.emplace(name, Tensor::zeros(tensor.shape(), tensor.dtype()));
  }
  stage->set_gradients(none);
  taken_.insert_or_assign(micro_batch.index, std::move(gradients));
}

void CopyGradients::reduce(Stage& stage, const SlicedBatch& batch, std::vector<TapReport>& taps,
                           std::uint64_t& ends_after) {
  // A copy that computed nothing has not drawn its start weights either.
  if (taken_.empty()) static_cast<void>(stage->parameters());
  const MicroBatch whole{batch.micro_batches.front().step,
                         static_cast<std::uint32_t>(batch.micro_batches.size()), 0, 0};
  Share all;
  if (place_.copy == 0) {
    all = add_all(batch, taps, ends_after);
    for (Transport* const link : place_.links) tell(*link, whole, all);
  } else {
    Transport& first = *place_.links.front();
    for (const MicroBatch& micro_batch : batch.micro_batches) {
      if (place_.turns.copy_of(micro_batch.index) != place_.copy) continue;
      tell(first, micro_batch,
           {std::move(taken_[micro_batch.index]), taps[micro_batch.index], ends_after});
      taken_.erase(micro_batch.index);
    }
    // Also by a copy that had none.
    tell(first, whole, {{}, {}, ends_after});
    all = hear(first, whole);
    std::ranges::fill(taps, TapReport{});
  }
  taken_.clear();
  ends_after = all.ends_after;
  stage->set_gradients(all.gradients);
}

CopyGradients::Share CopyGradients::add_all(const SlicedBatch& batch, std::vector<TapReport>& taps,
                                            std::uint64_t ends_after) {
  Share sum{{}, {}, ends_after};
  for (const MicroBatch& micro_batch : batch.micro_batches) {
    const std::size_t copy = place_.turns.copy_of(micro_batch.index);
    if (copy == 0) {
      add(sum.gradients, std::move(taken_[micro_batch.index]));
      taken_.erase(micro_batch.index);
      continue;
    }
    Share share = hear(*place_.links[copy - 1], micro_batch);
    taps[micro_batch.index] = share.taps;
    add(sum.gradients, std::move(share.gradients));
  }
  const MicroBatch whole{batch.micro_batches.front().step,
                         static_cast<std::uint32_t>(batch.micro_batches.size()), 0, 0};
  for (Transport* const link : place_.links) {
    sum.ends_after = std::min(sum.ends_after, hear(*link, whole).ends_after);
  }
  return sum;
}

void CopyGradients::tell(Transport& link, const MicroBatch& micro_batch, const Share& share) const {
  ShareHead head{share.taps, share.ends_after, {}};
  for (const auto& [name, tensor] : share.gradients) head.names.push_back(name);
  link.send({MessageKind::kControl,
             micro_batch.step,
             micro_batch.index,
             {},
             write_fields(head, kShareFields)},
            deadline_in(place_.patience));
  for (const auto& [name, tensor] : share.gradients) {
    link.send({MessageKind::kGradient, micro_batch.step, micro_batch.index, tensor, {}},
              deadline_in(place_.patience));
  }
}

CopyGradients::Share CopyGradients::hear(Transport& link, const MicroBatch& micro_batch) const {
  const Message first = receive(link, micro_batch);
  const auto head = read_fields<ShareHead>(first.attachment, "share of a copy", kShareFields);
  Share share{{}, head.taps, head.ends_after};
  for (const std::string& name : head.names) {
    share.gradients.emplace(name, copied(receive(link, micro_batch).tensor));
  }
  return share;
}

Message CopyGradients::receive(Transport& link, const MicroBatch& due) const {
  std::optional<Message> message = link.receive(deadline_in(place_.patience));
  if (!message) {
    fail(ErrorCode::kAborted, "'{}': the other copy stopped in step {}", link.binding().name,
         due.step + 1);
  }
  if (message->step != due.step || message->micro_batch != due.index) {
    fail(ErrorCode::kDataLoss,
         "'{}': gradients of step {}, micro-batch {} were due, step {}, micro-batch {} came; the "
         "copies are out of step: start all from the same checkpoint, with the same plan",
         link.binding().name, due.step + 1, due.index, message->step + 1, message->micro_batch);
  }
  return std::move(*message);
}

}  // namespace harmonics::inline in_schedule
