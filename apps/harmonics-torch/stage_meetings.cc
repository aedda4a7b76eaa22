#include "stage_meetings.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <harmonics/base/environment.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/private_file.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/graph/partition.h>
#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::size_t kMaxTokenFile = 4096;

}  // namespace

std::string shared_secret(const std::filesystem::path& file) {
  if (file.empty()) return environment_text(kTokenVariable);
  require_private(file, "a secret");
  std::string token = read_text_file(file, kMaxTokenFile);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty()) fail(ErrorCode::kInvalidArgument, "'{}' holds no token", file.string());
  return token;
}

Meetings meetings_of(const StageCommand& command, const HarmonicGraph& part,
                     const PartCopies& copies) {
  Meetings meetings;
  std::vector<std::string> known;
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) continue;
    for (const std::string& name : entering_channels(copies, node.name)) known.push_back(name);
  }
  for (const std::string& name : copy_links(copies, part.name())) known.push_back(name);
  const std::size_t entering = known.size();
  for (const ConsumerNode& node : part.consumers()) {
    if (!is_boundary_name(node.name)) continue;
    for (const std::string& name : leaving_channels(copies, node.name)) known.push_back(name);
  }
  for (const std::string& url : command.boundaries) {
    const RemoteBinding binding = parse_binding(url);
    const auto found = std::ranges::find(known, binding.name);
    if (found == known.end()) {
      fail(ErrorCode::kNotFound, "--boundary {}: part '{}' has no boundary '{}'; it has: {}", url,
           part.name(), binding.name, listed(known));
    }
    const bool enters = static_cast<std::size_t>(found - known.begin()) < entering;
    (enters ? meetings.entering : meetings.leaving).push_back(binding);
  }
  if (!command.meet.empty()) return meetings;
  for (const std::string& name : known) {
    const auto has_name = [&](const RemoteBinding& binding) { return binding.name == name; };
    if (std::ranges::any_of(meetings.entering, has_name) ||
        std::ranges::any_of(meetings.leaving, has_name)) {
      continue;
    }
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}' of part '{}' has no meeting place: add --boundary tcp://HOST:PORT/{}, or "
         "--meet tcp://HOST:PORT for all",
         name, part.name(), name);
  }
  return meetings;
}

StageCommand with_host_places(StageCommand command, const HarmonicGraph& part, const Plan& plan,
                              const PartCopies& copies) {
  const std::string file = command.hosts.string();
  const HostAddresses addresses =
      parse_host_addresses(read_text_file(command.hosts, kMaxPlannerFileBytes), file);
  std::set<std::string> placed;
  for (const std::string& url : command.boundaries) placed.insert(parse_binding(url).name);
  // Several hosts may be one machine, and several processes meet at one place: whose place it is
  // listens, whoever comes first.
  const auto place_at = [&](const std::string& channel, const std::string& host, bool listens) {
    if (!placed.insert(channel).second) return;
    const auto found = addresses.find(host);
    if (found == addresses.end()) {
      fail(ErrorCode::kNotFound,
           "'{}' has no address for host '{}' of the plan: add a line '{}: ADDRESS:PORT'", file,
           host, host);
    }
    RemoteBinding binding = parse_binding(format("tcp://{}/place", found->second));
    binding.name = channel;
    binding.listen = listens;
    command.boundaries.push_back(binding_url(binding));
  };
  const auto place = [&](const std::string& channel, std::size_t taking_copy, bool listens) {
    const std::string boundary(boundary_of(channel));
    const auto taker = number_from<std::size_t>(boundary.substr(boundary.rfind('@') + 1));
    place_at(channel, plan.stages.at(taker.value()).hosts.at(taking_copy), listens);
  };
  const PlanStage& own = plan.stages.at(static_cast<std::size_t>(command.part));
  for (const std::string& name : copy_links(copies, part.name())) {
    place_at(name, own.hosts.front(), copies.copy == 0);
  }
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) continue;
    for (const std::string& name : entering_channels(copies, node.name)) {
      place(name, copies.copy, true);
    }
  }
  for (const ConsumerNode& node : part.consumers()) {
    if (!is_boundary_name(node.name)) continue;
    const std::vector<std::string> channels = leaving_channels(copies, node.name);
    for (std::size_t copy = 0; copy < channels.size(); ++copy) place(channels[copy], copy, false);
  }
  return command;
}

TransportOptions transport_options(const StageCommand& command, const InterruptWatch& watch) {
  TransportOptions options;
  options.run = command.run;
  options.stop = watch.stop();
  options.token = shared_secret(command.token_file);
  options.tls.certificate_file = command.tls_certificate.string();
  options.tls.key_file = command.tls_key.string();
  options.tls.authority_file = command.tls_authority.string();
  return options;
}

std::string waiting_text(const StageCommand& command, const Meetings& meetings) {
  std::set<std::string> places;
  if (!command.meet.empty()) places.insert(command.meet);
  for (const auto* ends : {&meetings.entering, &meetings.leaving}) {
    for (const RemoteBinding& end : *ends) places.insert(binding_url(end));
  }
  for (const std::string& url : command.replica_places) places.insert(url);
  if (places.empty()) return {};
  return format("part {} meets the others at {}, and waits up to {} s for them", command.part,
                listed(std::vector<std::string>(places.begin(), places.end())),
                command.first_contact_s);
}

RemoteOptions remote_options(const StageCommand& command, RuntimeOptions runtime,
                             const InterruptWatch& watch) {
  RemoteOptions options;
  options.runtime = std::move(runtime);
  options.pipeline.deadline = std::chrono::seconds(command.deadline_s);
  options.first_contact = std::chrono::seconds(command.first_contact_s);
  options.transport = transport_options(command, watch);
  return options;
}

DeploymentDescriptor part_deployment(const StageCommand& command, const TrainSettings& settings) {
  DeploymentDescriptor deploy;
  deploy.partitions.resize(1);
  deploy.partitions[0].backend = backend_from_name(settings.backend);
  deploy.partitions[0].target = command.meet;
  return deploy;
}

bool lost_others(const Error& error) {
  return error.code() == ErrorCode::kAborted || error.code() == ErrorCode::kUnavailable;
}

}  // namespace harmonics::inline in_torch_program
