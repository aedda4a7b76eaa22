#include "run_seats.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <harmonics/base/entropy.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/graph/partition.h>

#include "chain_files.h"
#include "inference/boundary_packing.h"
#include "part_children.h"

namespace harmonics::inline in_torch_program {
namespace {

void append_settings(std::vector<std::string>& words, const TrainingJob& job) {
  const TrainCommand& command = job.command;
  for (const auto& [name, value] : command.axes) {
    words.insert(words.end(), {"--axis", format("{}={}", name, value)});
  }
  for (const Binding& binding : command.bindings) {
    words.insert(words.end(), {"--bind", format("{}={}", binding.name, binding.spec)});
  }
  for (const Setting& setting : command.settings) {
    const TrainSettingRule& rule = *find_train_setting_rule(setting.key);
    std::ranges::move(setting_words(rule, setting.value), std::back_inserter(words));
  }
  std::ranges::move(bits_words(command.bits), std::back_inserter(words));
}

std::vector<Seat> seats_of_plan(const Plan& plan, std::size_t parts) {
  std::vector<Seat> seats;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t copies = turns_of(plan, part).copies();
    for (std::size_t copy = 0; copy < copies; ++copy) seats.push_back({part, copy});
  }
  return seats;
}

}  // namespace

RunSeats::RunSeats(const TrainingJob& job, std::filesystem::path checkpoint)
    : job_(job),
      checkpoint_(std::move(checkpoint)),
      parts_(parts_of(job)),
      seats_(seats_of_plan(job.plan, parts_.size())),
      replicas_(static_cast<std::size_t>(job.settings.replicas)) {
  // Wrong bits are said once, here.
  static_cast<void>(packing_of(job.command.bits, parts_, job.planned_bits));
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    // The first of several copies hears what the taps of all of them saw.
    if (seats_[i].copy == 0 && !parts_[seats_[i].part].taps().empty()) teller_ = i;
  }
}

std::string RunSeats::who(std::size_t child) const {
  const Seat& seat = seat_of_child(child);
  const std::string part = format("part {} of {}", seat.part, parts_.size());
  if (replicas_ > 1) return format("{} in replica {}", part, child / seats_.size());
  if (turns_of(job_.plan, seat.part).copies() == 1) return part;
  return format("{}, copy {} ({})", part, seat.copy, job_.plan.stages[seat.part].hosts[seat.copy]);
}

PartCopies RunSeats::copies_of_seat(const Seat& seat) const {
  PartCopies copies = copies_of(job_.plan, parts_, seat);
  copies.learns = true;
  return copies;
}

// Every boundary, or channel of one between copies, has a port (or a name of shared memory) of its
// own, and so has every replica of a part.
void RunSeats::choose_places() {
  FreePlaces places(transport_from_name(job_.command.transport), job_.command.compress);
  choose_no_places();
  replica_places_.assign(parts_.size(), {});
  for (std::size_t child = 0; child < count(); ++child) {
    const Seat& seat = seat_of_child(child);
    const PartCopies copies = copies_of_seat(seat);
    const auto place = [&](const std::string& name) {
      auto& known = places_[child / seats_.size()];
      if (!known.contains(name)) known[name] = binding_url(places.next(name));
    };
    for (const ConsumerNode& node : parts_[seat.part].consumers()) {
      if (!is_boundary_name(node.name)) continue;
      std::ranges::for_each(leaving_channels(copies, node.name), place);
    }
    std::ranges::for_each(copy_links(copies, parts_[seat.part].name()), place);
    if (replicas_ > 1) replica_places_[seat.part].push_back(binding_url(places.next("replicas")));
  }
}

void RunSeats::choose_no_places() {
  places_.assign(replicas_, {});
  replica_places_.assign(parts_.size(), {});
  run_ = "train-" + random_hex(kRunNameBytes);
}

std::vector<std::string> RunSeats::environment(std::size_t child) const {
  const std::vector<double>& factors = job_.command.slowdowns;
  if (factors.empty()) return {};
  return {format("{}={}", kTaskSlowdownVariable, factors[child / seats_.size()])};
}

void RunSeats::add_meetings(std::vector<std::string>& words, std::size_t child) const {
  const Seat& seat = seat_of_child(child);
  const HarmonicGraph& graph = parts_[seat.part];
  const PartCopies copies = copies_of_seat(seat);
  const auto& places = places_[child / seats_.size()];
  const auto meet = [&](const std::string& name) {
    words.insert(words.end(), {"--boundary", places.at(name)});
  };
  std::ranges::for_each(copy_links(copies, graph.name()), meet);
  for (const ProducerNode& node : graph.producers()) {
    if (!is_boundary_name(node.name)) continue;
    std::ranges::for_each(entering_channels(copies, node.name), meet);
  }
  for (const ConsumerNode& node : graph.consumers()) {
    if (!is_boundary_name(node.name)) continue;
    std::ranges::for_each(leaving_channels(copies, node.name), meet);
  }
}

std::vector<std::string> RunSeats::arguments(std::size_t child, bool resume) const {
  const TrainCommand& command = job_.command;
  const Seat& seat = seat_of_child(child);
  std::vector<std::string> words = {"stage", command.file.string(), "--part",
                                    std::to_string(seat.part)};
  if (!command.plan.empty()) {
    words.insert(words.end(),
                 {"--plan", command.plan.string(), "--copy", std::to_string(seat.copy)});
  }
  append_settings(words, job_);
  words.insert(words.end(), {"--run", run_, "--restarts", "0", "--first-contact",
                             std::to_string(kFirstContactSeconds), "--batches-per-epoch",
                             std::to_string(job_.data.batches_per_epoch), "--checkpoint",
                             checkpoint_.string(), "--checkpoint-every",
                             std::to_string(command.checkpoint_every), "--checkpoint-every-epochs",
                             std::to_string(command.checkpoint_every_epochs), "--output", "json"});
  if (resume) words.push_back("--resume");
  std::ranges::move(secure_words(command.secure, child), std::back_inserter(words));
  if (!command.weights.empty()) {
    words.insert(words.end(), {"--weights", command.weights.string()});
  }
  if (!command.metrics.empty() && child == teller_) {
    words.insert(words.end(), {"--metrics", command.metrics.string()});
  }
  if (replicas_ > 1) {
    words.insert(words.end(), {"--replica", std::to_string(child / seats_.size())});
  }
  for (const std::string& url : replica_places_[seat.part]) {
    words.insert(words.end(), {"--replica-place", url});
  }
  add_meetings(words, child);
  return words;
}

}  // namespace harmonics::inline in_torch_program
