#include "checkpoint_state.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

// A counter of the state; one that no run can have is an Error, checksum or not.
std::int64_t counter(const Json& json, std::string_view key, std::int64_t least = 0,
                     std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const std::int64_t value = json.at(key).as_integer();
  if (value >= least && value <= most) return value;
  fail(ErrorCode::kDataLoss,
       "the state in the checkpoint makes no sense: {} is {}, {} was expected", key, value,
       most == std::numeric_limits<std::int64_t>::max() ? format("at least {}", least)
                                                        : format("{} to {}", least, most));
}

double finite_number(const Json& json, std::string_view key) {
  const double value = json.at(key).as_number();
  if (std::isfinite(value)) return value;
  fail(ErrorCode::kDataLoss, "the state in the checkpoint makes no sense: {} is not finite", key);
}

// All producers of a run stand in one epoch of one order.
void require_one_order(const std::map<std::string, ProducerPosition>& positions) {
  for (const auto& [name, position] : positions) {
    const auto& [other, first] = *positions.begin();
    if (position.order == first.order) continue;
    fail(
        ErrorCode::kDataLoss,
        "the state in the checkpoint makes no sense: producer '{}' is in epoch {} of seed {}, '{}' "
        "in epoch {} of seed {}",
        name, position.order.epoch, position.order.seed, other, first.order.epoch,
        first.order.seed);
  }
}

std::map<std::string, ProducerPosition> positions_from(const Json& json) {
  std::map<std::string, ProducerPosition> positions;
  for (const auto& [name, value] : json.as_object()) {
    const auto& numbers = value.as_array();
    if (numbers.size() != 3 || numbers[1].as_integer() < 0 || numbers[2].as_integer() < 0) {
      fail(ErrorCode::kDataLoss, "the position of '{}' in the checkpoint is damaged", name);
    }
    positions[name] = {{static_cast<std::uint64_t>(numbers[0].as_integer()),
                        static_cast<std::uint64_t>(numbers[1].as_integer())},
                       numbers[2].as_integer()};
  }
  require_one_order(positions);
  return positions;
}

}  // namespace

LearningState learning_state_from(const Json& json) {
  LearningState state;
  state.steps = counter(json, "steps");
  state.updates = counter(json, "updates", 0, state.steps);
  state.loss_scale = finite_number(json, "loss_scale");
  state.steps_since_overflow = counter(json, "steps_since_overflow", 0, state.steps);
  if (state.loss_scale < 1) {
    fail(ErrorCode::kDataLoss, "the state in the checkpoint makes no sense: loss_scale is {}",
         state.loss_scale);
  }
  return state;
}

TrainingProgress progress_from(const Json& json) {
  TrainingProgress progress;
  progress.epochs_done = counter(json, "epochs_done");
  progress.batches_in_epoch = counter(json, "batches_in_epoch");
  progress.samples_in_epoch = counter(json, "samples_in_epoch");
  const std::int64_t judged = counter(json, "judged_in_epoch");
  progress.taps_in_epoch = {finite_number(json, "loss_sum_in_epoch"), judged,
                            counter(json, "correct_in_epoch", 0, judged)};
  if (const Json* loss = json.find("last_train_loss")) {
    progress.last_train_loss = loss->as_number();
  }
  if (const Json* accuracy = json.find("last_train_accuracy")) {
    progress.last_train_accuracy = accuracy->as_number();
  }
  progress.best_loss = json.at("best_loss").as_number();
  progress.epochs_since_best = counter(json, "epochs_since_best", -1);
  progress.positions = positions_from(json.at("positions"));
  return progress;
}

}  // namespace harmonics::inline in_schedule
