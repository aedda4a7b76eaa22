#include <harmonics/rpc/output_fetch.h>

#include <sstream>

#include "connection.h"
#include "conversion.h"

namespace harmonics::inline in_rpc {

void fetch_output(const OutputPlace& place, const OutputQuery& query,
                  const std::optional<TlsFiles>& tls, std::chrono::milliseconds patience,
                  const std::function<bool(const OutputPiece&)>& take) {
  const auto stub = wire::WorkerLogs::NewStub(open_channel(place.address, tls, Door::kWorker));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  add_token(context, place.token);
  wire::LogRequest request;
  encode(query, request);
  request.set_task(place.attempt.task.value);
  request.set_attempt(place.attempt.attempt.value);
  const auto reader = stub->Read(&context, request);
  wire::LogChunk chunk;
  bool wanted = true;
  while (wanted && reader->Read(&chunk)) {
    wanted = take({chunk.offset(), std::move(*chunk.mutable_data())});
  }
  if (!wanted) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wanted || status.ok()) return;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    fail(ErrorCode::kFailedPrecondition,
         "the worker that has this output does not answer at {}: is it running, and can the server "
         "reach its --addr?",
         place.address);
  }
  check(status, place.address, tls.has_value());
}

std::vector<ArtifactView> parse_artifact_list(const std::string& text) {
  std::vector<ArtifactView> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json entry = Json::parse(line, "the worker's list of artifacts");
    found.push_back(
        {entry.at("path").as_string(), static_cast<std::uint64_t>(entry.at("bytes").as_integer())});
  }
  return found;
}

}  // namespace harmonics::inline in_rpc
