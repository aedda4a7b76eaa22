// Where and how a part meets the others: what `harmonics stage` says of it, in training and not.
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/plan/plan_file.h>
#include <harmonics/schedule/part_copies.h>
#include <harmonics/schedule/remote_scheduler.h>
#include <harmonics/settings/train_settings.h>
#include <harmonics/transport/transport.h>

#include "interrupt.h"

namespace harmonics::inline in_torch_program {

/// The part's boundaries with their meeting places.
struct Meetings {
  std::vector<RemoteBinding> entering;
  std::vector<RemoteBinding> leaving;
};

/// A boundary without a place, or a place for a boundary that the part does not have, is an Error.
/// Where parts have copies, each channel of a boundary (part_copies.h) has a place.
[[nodiscard]] Meetings meetings_of(const StageCommand& command, const HarmonicGraph& part,
                                   const PartCopies& copies = {});

/// The command with a place for every channel of the part that has none: at the address of the
/// host that runs the part, or the copy of it, which takes it. A host without an address is an
/// Error.
[[nodiscard]] StageCommand with_host_places(StageCommand command, const HarmonicGraph& part,
                                            const Plan& plan, const PartCopies& copies = {});

/// For whoever started the part by hand and sees nothing while it waits: where it meets the others,
/// and how long it waits for them. Empty for a part that meets nobody.
[[nodiscard]] std::string waiting_text(const StageCommand& command, const Meetings& meetings);

/// How the part works with the others: deadlines, the run's name, its secret and TLS.
[[nodiscard]] RemoteOptions remote_options(const StageCommand& command, RuntimeOptions runtime,
                                           const InterruptWatch& watch);
/// Where the part is, and what computes it.
[[nodiscard]] DeploymentDescriptor part_deployment(const StageCommand& command,
                                                   const TrainSettings& settings);

/// The run's name, its secret and TLS. A file of a secret that others can read is an Error.
[[nodiscard]] TransportOptions transport_options(const StageCommand& command,
                                                 const InterruptWatch& watch);

/// What a file of a secret holds; of no file: what is in the environment, if it is there. A file
/// that others can read, or that holds nothing, is an Error.
[[nodiscard]] std::string shared_secret(const std::filesystem::path& file);

/// Whether another part went away, so that beginning again may help.
[[nodiscard]] bool lost_others(const Error& error);

}  // namespace harmonics::inline in_torch_program
