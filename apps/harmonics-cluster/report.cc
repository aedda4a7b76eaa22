// harmonics report: a task as one page that needs no server.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/file.h>
#include <harmonics/clients/access.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/export.h>
#include <harmonics/graph/harp.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>
#include <harmonics/server/page_files.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

/// Of each stream the newest; progress lines are kept whole as far as a worker keeps them.
constexpr std::size_t kStreamBytes = 256 << 10;
constexpr std::size_t kMetricsBytes = 8 << 20;
/// Members whose output a report holds.
constexpr std::size_t kMaxReportRanks = 16;

/// The last bytes of a stream and where they begin, as the page takes them.
Json output_json(ClusterClient& client, const OutputQuery& query, std::size_t most) {
  std::string text;
  std::uint64_t end = 0;
  client.read_log(query, [&](const OutputPiece& piece) {
    text += piece.data;
    end = piece.offset + piece.data.size();
    if (text.size() > 2 * most) text.erase(0, text.size() - most);
    return true;
  });
  if (text.size() > most) text.erase(0, text.size() - most);
  return Json().set("offset", end - text.size()).set("text", text);
}

/// The answers that the page would have had of a server, by what it asks.
class Answers {
 public:
  Answers(ClusterClient& client, TaskId task) : client_(client), task_(task) {}

  void add(const char* question, Json answer) {
    json_.set(format("/api/{}?id={}", question, task_.value), std::move(answer));
  }
  /// What is no longer there, or away with its worker, is left out: the page says so.
  void add_output(const std::string& stream, std::uint32_t rank, std::size_t most) {
    OutputQuery query;
    query.task = task_;
    query.rank = rank;
    query.stream = stream;
    try {
      json_.set(format("/api/output?id={}&stream={}&attempt=0&rank={}", task_.value, stream, rank),
                output_json(client_, query, most));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kUnavailable) throw;
    }
  }
  Json take() { return std::move(json_); }

 private:
  ClusterClient& client_;
  const TaskId task_;
  Json json_ = Json::object();
};

Json report_data(ClusterClient& client, const TaskView& task) {
  Answers answers(client, task.id);
  answers.add("task", task_json(task));
  answers.add("why", why_json(client.why(task.id)));
  if (task.spec.pipeline) answers.add("graph", to_json(parse_harp(task.spec.pipeline->graph)));
  if (task.attempts > 0) {
    const std::size_t ranks = std::clamp<std::size_t>(task.members.size(), 1, kMaxReportRanks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      answers.add_output("out", rank, kStreamBytes);
      answers.add_output("err", rank, kStreamBytes);
      answers.add_output("metrics", rank, kMetricsBytes);
    }
    answers.add_output("artifacts", 0, kMetricsBytes);
  }
  const ClusterStatus status = client.status();
  return Json()
      .set("task", task.id.value)
      .set("now", in_seconds(status.now))
      .set("version", status.version)
      .set("answers", answers.take());
}

}  // namespace

int report(const ReportCommand& command) {
  ClusterClient client(client_options(command.access));
  const TaskView task = client.task({static_cast<std::uint64_t>(command.task)});
  const std::filesystem::path out =
      command.out.empty() ? format("task-{}.html", command.task) : command.out.string();
  const std::string page = report_page(report_data(client, task));
  write_text_file(out, page);
  switch (command.output) {
    case OutputStyle::kJson:
      write_json(Json().set("file", out.string()).set("bytes", page.size()));
      break;
    case OutputStyle::kQuiet: write_text(TextStream::kOutput, out.string() + "\n"); break;
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, format("wrote '{}' ({} bytes): open it in a browser\n",
                                             escaped(out.string()), page.size()));
      break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
