// What a task without a command runs: the built-in trainer, told by the task's parameters.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/clients/train_params.h>

namespace harmonics::inline in_cluster_program {

struct TrainPlaces {
  std::filesystem::path examples;  ///< The shipped models.
  std::filesystem::path data;      ///< Where data sets lie by name; empty: nowhere.
  std::filesystem::path scratch;   ///< Where a network of the zoo is written to.
  std::size_t devices = 0;         ///< That the task has on this worker.
};

/// A task's place in its gang.
struct TrainGang {
  std::size_t rank = 0;
  std::vector<std::string> hosts;  ///< Of the members, in order of rank; one or none: no gang.
  std::uint16_t port = 0;          ///< Rank r is reached at this plus r.
  std::string run;                 ///< The same in all members.
};

/// The words after `harmonics` that train what the parameters say, data-parallel over the devices
/// of the task, or with one replica on each worker of its gang. `model` is a .harp file or a
/// name of the zoo, without it the shipped digits; `dataset` is a file, a name below `data`, or
/// synthetic:imagenet (mnist, cifar10, digits). Honours batch_size, learning_rate, epochs,
/// optimizer, momentum and weight_decay. A set that is not there is made up for a model of the zoo,
/// and `note` is the line that says so. What is missing, or a key that is not known, is an Error
/// that says what to do.
[[nodiscard]] std::vector<std::string> training_words(const TaskParams& given,
                                                      const TrainPlaces& places,
                                                      const TrainGang& gang, std::string& note);

/// Reads parameters and devices from the environment that a worker gives to a task, says what it is
/// going to train, and becomes that.
int train_task();

}  // namespace harmonics::inline in_cluster_program
