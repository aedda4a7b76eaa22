// To and from the generated messages (private to rpc). Decoding bounds what it takes over: a
// message that passes a ceiling of the cluster's types is an Error (kInvalidArgument).
#pragma once

#include <cluster.grpc.pb.h>

#include <harmonics/rpc/service.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

namespace wire = ::harmonics::cluster::v1;

void encode(const TaskSpec& from, wire::TaskSpec& to);
void encode(const EndResult& from, wire::EndResult& to);
void encode(const TaskView& from, wire::TaskView& to);
void encode(const TaskPage& from, wire::ListTasksReply& to);
void encode(const WorkerView& from, wire::WorkerView& to);
void encode(const std::vector<WorkerView>& from, wire::ListWorkersReply& to);
void encode(const std::vector<UserView>& from, wire::QuotaList& to);
void encode(const Submitted& from, wire::SubmitReply& to);
void encode(const Done& from, wire::Empty& to);
void encode(const WhyPending& from, wire::WhyReply& to);
void encode(const WaitResult& from, wire::WaitReply& to);
void encode(const ClusterStatus& from, wire::StatusReply& to);
void encode(const OutputQuery& from, wire::LogRequest& to);
void encode(const WorkerMessage& from, wire::WorkerMessage& to);
void encode(const ServerMessage& from, wire::ServerMessage& to);

[[nodiscard]] TaskSpec decode(const wire::TaskSpec& from);
[[nodiscard]] Submitted decode(const wire::SubmitReply& from);
[[nodiscard]] EndResult decode(const wire::EndResult& from);
[[nodiscard]] TaskView decode(const wire::TaskView& from);
[[nodiscard]] TaskPage decode(const wire::ListTasksReply& from);
[[nodiscard]] WorkerView decode(const wire::WorkerView& from);
[[nodiscard]] std::vector<UserView> decode(const wire::QuotaList& from);
[[nodiscard]] WhyPending decode(const wire::WhyReply& from);
[[nodiscard]] WaitResult decode(const wire::WaitReply& from);
[[nodiscard]] ClusterStatus decode(const wire::StatusReply& from);
[[nodiscard]] AttemptId decode(const wire::AttemptId& from);
[[nodiscard]] WorkerMessage decode(const wire::WorkerMessage& from);
[[nodiscard]] ServerMessage decode(const wire::ServerMessage& from);

}  // namespace harmonics::inline in_rpc
