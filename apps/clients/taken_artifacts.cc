#include <harmonics/clients/taken_artifacts.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/clients/task_text.h>

namespace harmonics::inline in_clients {
namespace {

namespace fs = std::filesystem;

/// What the worker says is not trusted with this machine's files.
void check_inside(const std::string& path) {
  const fs::path relative(path);
  const bool inside = !path.empty() && relative.is_relative() &&
                      std::ranges::find(relative, fs::path("..")) == relative.end();
  if (!inside) {
    fail(ErrorCode::kPermissionDenied, "the worker names an artifact '{}', which lies outside",
         escaped(path));
  }
}

std::vector<ArtifactView> chosen(std::vector<ArtifactView> all, const ArtifactsCommand& command) {
  if (command.paths.empty()) return all;
  std::vector<ArtifactView> found;
  for (const std::string& path : command.paths) {
    const auto one = std::ranges::find(all, path, &ArtifactView::path);
    if (one == all.end()) {
      fail(ErrorCode::kNotFound,
           "task {} left no artifact '{}': 'harmonics artifacts {}' lists what there is",
           command.task, path, command.task);
    }
    found.push_back(*one);
  }
  return found;
}

/// Under another name until it is whole.
void fetch(ClusterClient& client, const OutputQuery& query, const ArtifactView& artifact,
           const fs::path& folder) {
  check_inside(artifact.path);
  const fs::path place = folder / artifact.path;
  const fs::path partial = place.string() + format(".part-{}", ::getpid());
  fs::create_directories(place.parent_path());
  try {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    client.read_artifact(query, artifact, [&](std::string_view bytes) {
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    });
    file.close();
    if (!file) fail(ErrorCode::kResourceExhausted, "cannot write '{}'", partial.string());
    fs::rename(partial, place);
  } catch (const std::exception&) {
    std::error_code error;
    fs::remove(partial, error);
    throw;
  }
}

/// Of a pipeline that infers, the stages whose rows come out.
std::vector<std::uint32_t> asked_ranks(ClusterClient& client, const ArtifactsCommand& command) {
  if (command.rank) return {static_cast<std::uint32_t>(*command.rank)};
  std::vector<std::uint32_t> ranks;
  if (command.attempt == 0) {
    const TaskView task = client.task({static_cast<std::uint64_t>(command.task)});
    for (const std::size_t rank : result_ranks(task)) {
      ranks.push_back(static_cast<std::uint32_t>(rank));
    }
  }
  return ranks.empty() ? std::vector<std::uint32_t>{0} : ranks;
}

}  // namespace

std::vector<ArtifactView> take_artifacts(ClusterClient& client, const ArtifactsCommand& command) {
  OutputQuery query;
  query.task = {static_cast<std::uint64_t>(command.task)};
  query.attempt = {static_cast<std::uint32_t>(command.attempt)};
  std::vector<ArtifactView> all;
  std::vector<std::uint32_t> ranks;  // of each of them
  for (const std::uint32_t rank : asked_ranks(client, command)) {
    query.rank = rank;
    for (ArtifactView& one : client.artifacts(query)) {
      all.push_back(std::move(one));
      ranks.push_back(rank);
    }
  }
  const std::vector<ArtifactView> wanted = chosen(all, command);
  if (!command.to.empty()) {
    for (const ArtifactView& artifact : wanted) {
      const auto at = std::ranges::find(all, artifact.path, &ArtifactView::path) - all.begin();
      query.rank = ranks[static_cast<std::size_t>(at)];
      fetch(client, query, artifact, command.to);
    }
  }
  return wanted;
}

}  // namespace harmonics::inline in_clients
