#include "batch_system.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/server/state_folder.h>

#include "foreign_program.h"

namespace harmonics::inline in_cluster_program {
namespace {

constexpr std::chrono::seconds kBatchPatience(30);
/// Jobs of one user that are looked at.
constexpr std::size_t kMaxJobs = 100'000;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string ask_batch(const std::filesystem::path& program, std::vector<std::string> words,
                      const std::string& input = {}) {
  const ForeignAnswer answer = ask_foreign(program, std::move(words), input, kBatchPatience);
  if (!answer.done()) {
    fail(ErrorCode::kUnavailable, "{}: {}", program.filename().string(), failure_text(answer));
  }
  return answer.out;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

class SlurmSystem final : public BatchSystem {
 public:
  [[nodiscard]] std::string submit(const BatchRequest& request) const override {
    std::vector<std::string> words = {"--parsable", "--no-requeue", "--job-name",
                                      request.name, "--output",     request.output.string()};
    words.insert(words.end(), request.flags.begin(), request.flags.end());
    const std::string line = first_line(ask_batch(sbatch_, std::move(words), request.script));
    const std::string id = line.substr(0, line.find(';'));  // ";CLUSTER" may follow
    if (id.empty()) fail(ErrorCode::kUnavailable, "sbatch printed no job id");
    return id;
  }
  [[nodiscard]] std::vector<BatchJob> jobs() const override {
    return parse_squeue(
        ask_batch(squeue_, {"--noheader", "--user", user_name(), "--format", "%i|%T|%j"}));
  }
  void cancel(const std::string& id) const override {
    static_cast<void>(ask_batch(scancel_, {"--quiet", id}));
  }
  [[nodiscard]] std::string granted_flags() const override {
    return "${SLURM_CPUS_ON_NODE:+--cpus $SLURM_CPUS_ON_NODE} "
           "${SLURM_MEM_PER_NODE:+--memory $SLURM_MEM_PER_NODE}";
  }

 private:
  static constexpr const char* kAdvice =
      "run this where Slurm's commands are, such as its login node (Debian: slurm-client)";
  const std::filesystem::path sbatch_ = find_foreign("sbatch", kAdvice);
  const std::filesystem::path squeue_ = find_foreign("squeue", kAdvice);
  const std::filesystem::path scancel_ = find_foreign("scancel", kAdvice);
};

class PbsSystem final : public BatchSystem {
 public:
  [[nodiscard]] std::string submit(const BatchRequest& request) const override {
    std::vector<std::string> words = {"-N", request.name, "-j",
                                      "oe", "-o",         request.output.string()};
    words.insert(words.end(), request.flags.begin(), request.flags.end());
    const std::string id = first_line(ask_batch(qsub_, std::move(words), request.script));
    if (id.empty()) fail(ErrorCode::kUnavailable, "qsub printed no job id");
    return id;
  }
  [[nodiscard]] std::vector<BatchJob> jobs() const override {
    return parse_qstat(ask_batch(qstat_, {"-f"}), user_name());
  }
  void cancel(const std::string& id) const override {
    const ForeignAnswer answer = ask_foreign(qdel_, {id}, {}, kBatchPatience);
    const bool gone = answer.err.find("Unknown Job") != std::string::npos ||
                      answer.err.find("has finished") != std::string::npos;
    if (!answer.done() && !gone) fail(ErrorCode::kUnavailable, "qdel: {}", failure_text(answer));
  }
  [[nodiscard]] std::string granted_flags() const override { return "${NCPUS:+--cpus $NCPUS}"; }

 private:
  static constexpr const char* kAdvice =
      "run this where the commands of PBS are, such as its login node";
  const std::filesystem::path qsub_ = find_foreign("qsub", kAdvice);
  const std::filesystem::path qstat_ = find_foreign("qstat", kAdvice);
  const std::filesystem::path qdel_ = find_foreign("qdel", kAdvice);
};

/// "Job_Name = x" of a qstat's line, without what is around them.
std::pair<std::string_view, std::string_view> attribute_of(std::string_view line) {
  const std::size_t equals = line.find(" = ");
  if (equals == line.npos) return {};
  const std::size_t begin = line.find_first_not_of(" \t");
  return {line.substr(begin, equals - begin), line.substr(equals + 3)};
}

}  // namespace

std::vector<BatchJob> parse_squeue(std::string_view text) {
  std::vector<BatchJob> jobs;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t first = line.find('|');
    const std::size_t second = first == line.npos ? first : line.find('|', first + 1);
    if (second == line.npos || first == 0 || jobs.size() == kMaxJobs) {
      fail(ErrorCode::kInvalidArgument, "squeue: '{}' is no line that was asked for",
           escaped(std::string(line)));
    }
    const std::string_view state = line.substr(first + 1, second - first - 1);
    jobs.push_back({std::string(line.substr(0, first)), std::string(line.substr(second + 1)),
                    state == "RUNNING", std::string(state)});
  }
  return jobs;
}

std::vector<BatchJob> parse_qstat(std::string_view text, std::string_view user) {
  constexpr std::string_view kHead = "Job Id: ";
  std::vector<BatchJob> jobs;
  std::string owner;
  const auto settle = [&] {
    if (jobs.empty()) return;
    const bool ended =
        jobs.back().state == "F" || jobs.back().state == "C" || jobs.back().state == "X";
    if (ended || owner.substr(0, owner.find('@')) != user) jobs.pop_back();
    owner.clear();
  };
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with(kHead)) {
      settle();
      if (jobs.size() == kMaxJobs) fail(ErrorCode::kResourceExhausted, "qstat: too many jobs");
      jobs.push_back({std::string(line.substr(kHead.size())), {}});
      continue;
    }
    if (jobs.empty()) continue;
    const auto [key, value] = attribute_of(line);
    if (key == "Job_Name") jobs.back().name = value;
    if (key == "Job_Owner") owner = value;
    if (key == "job_state") {
      jobs.back().state = value;
      jobs.back().running = value == "R";
    }
  }
  settle();
  return jobs;
}

std::unique_ptr<BatchSystem> make_batch_system(const std::string& kind) {
  if (kind == "slurm") return std::make_unique<SlurmSystem>();
  if (kind == "pbs") return std::make_unique<PbsSystem>();
  fail(ErrorCode::kInvalidArgument, "'{}' is no batch system: there are slurm and pbs", kind);
}

}  // namespace harmonics::inline in_cluster_program
