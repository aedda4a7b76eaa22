// The parameters of the built-in trainer: which there are, and what stands in for data that is not
// here. Pure.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace harmonics::inline in_clients {

/// A task's parameters by key, as the trainer reads them ("learning_rate").
using TaskParams = std::map<std::string, std::string>;

/// Parameters that are flags of `harmonics train`.
inline constexpr std::array<std::pair<const char*, const char*>, 6> kTrainerFlags = {
    {{"batch_size", "--batch-size"},
     {"learning_rate", "--lr"},
     {"epochs", "--epochs"},
     {"optimizer", "--optimizer"},
     {"momentum", "--momentum"},
     {"weight_decay", "--weight-decay"}}};
/// Made-up data sets: how many classes their labels have.
inline constexpr std::array<std::pair<std::string_view, int>, 4> kSyntheticSets = {
    {{"imagenet", 1000}, {"mnist", 10}, {"cifar10", 10}, {"digits", 10}}};
inline constexpr std::string_view kSyntheticPrefix = "synthetic:";

/// What training on stand-in data is cut down to, whatever the task asks for: it shows that the
/// model trains here, and must not take hours on a processor.
inline constexpr int kStandInRows = 16;
inline constexpr int kStandInBatch = 8;
inline constexpr int kStandInEpochs = 2;

/// "learning_rate" for "Learning-Rate": as it comes back from its variable.
[[nodiscard]] std::string trainer_key(std::string_view key);

/// A key that the trainer does not know is an Error that lists what there is.
void check_trainer_params(const TaskParams& params);

/// Changes `params` to train on a little made-up data of the shape of the set that they name, and
/// answers the line that says so. `zoo_model`: only such a model says by itself what it is fed.
/// Empty and unchanged where they name no set that can be made up, or `strict_data` is "true".
[[nodiscard]] std::string stand_in_for_data(TaskParams& params, bool zoo_model);

}  // namespace harmonics::inline in_clients
