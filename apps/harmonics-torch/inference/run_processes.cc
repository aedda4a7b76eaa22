// A process for each part of a stream, or for each copy of it, and what to do when one dies.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <thread>

#include <harmonics/base/channel.h>
#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/secure_run.h>

#include "boundary_packing.h"
#include "chain_files.h"
#include "part_children.h"
#include "request_feed.h"
#include "results_channel.h"
#include "run_outputs.h"
#include "run_stream.h"
#include "stage_copies.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

// How often children are looked after while no results come.
constexpr std::chrono::milliseconds kLookAfter(20);
// Batches of results that wait here for those of other parts, and for the consumers.
constexpr std::size_t kWaitingResults = 4;
constexpr Window kResultsWindow = {std::uint64_t{64} << 20, 16};
// The parts' own deadlines come first: they know who hangs.
constexpr std::chrono::seconds kAfterTheParts(15);

/// What one part sends, received on a thread of its own. Destroying it ends the thread.
class ResultsInbox {
 public:
  ResultsInbox(const HarmonicGraph& part, const RemoteBinding& place, TransportOptions options)
      : stop_(std::make_shared<StopRequest>()) {
    options.stop = stop_;
    options.window = kResultsWindow;
    receiver_ = std::make_unique<ResultsReceiver>(part, make_transport(place, options));
    thread_ = std::thread([this] { receive(); });
  }
  ~ResultsInbox() {
    stop_->ask("the attempt is over");
    batches_.close();
    thread_.join();
  }
  ResultsInbox(const ResultsInbox&) = delete;
  ResultsInbox& operator=(const ResultsInbox&) = delete;

  [[nodiscard]] std::optional<StreamedBatch> next(Nanoseconds timeout) {
    return batches_.pop(timeout);
  }
  /// The part has sent its last, and all was taken.
  [[nodiscard]] bool is_over() const { return batches_.closed() && batches_.size() == 0; }

 private:
  // The part's own end says what went wrong, when something does.
  void receive() {
    try {
      while (auto batch = receiver_->receive(deadline_in(Channel<StreamedBatch>::kForever))) {
        if (!batches_.push(std::move(*batch))) break;
      }
      batches_.close();
    } catch (const std::exception&) {
    }
  }

  const StopRequestPtr stop_;
  std::unique_ptr<ResultsReceiver> receiver_;
  Channel<StreamedBatch> batches_{kWaitingResults};
  std::thread thread_;
};

class StreamProcesses {
 public:
  /// `served`: requests in place of data.
  StreamProcesses(const InferenceJob& job, InterruptWatch& watch, const ServedStream* served)
      : job_(job),
        watch_(watch),
        served_(served),
        token_(random_hex(kTokenBytes)),
        seats_(seats_of(job)),
        children_([this](std::size_t child) { return seat_text(job_, seats_[child]); }),
        tally_(job, open_outputs(job.graph, job.command.outputs), watch),
        flows_(seats_.size()) {
    for (std::size_t part = 0; part < job.parts.size(); ++part) {
      turns_.push_back(turns_of(job, part));
    }
  }

  RunReport run();

 private:
  /// Nothing when the data ended, or why the parts did not get there.
  [[nodiscard]] std::optional<Failure> attempt();
  void start();
  void prepare_chains() const;
  void add_proofs(RunReport& report) const;
  [[nodiscard]] bool is_secure() const { return job_.command.secure.mode != SecureMode::kNone; }
  void choose_places(const Seat& seat, FreePlaces& places, const TransportOptions& options);
  void start_feeds(FreePlaces& places, const TransportOptions& options);
  [[nodiscard]] std::vector<std::string> arguments(const Seat& seat) const;
  void hear(std::size_t child, const std::string& line);
  void take_results();
  void deliver();
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] std::optional<Failure> find_hang() const;

  const InferenceJob& job_;
  InterruptWatch& watch_;
  const ServedStream* const served_;
  const std::string token_;
  const std::vector<Seat> seats_;  // by child
  std::vector<CopyTurns> turns_;   // by part
  PartChildren children_;
  RunTally tally_;
  std::string run_;
  std::map<std::string, std::string, std::less<>> places_;  // URL by channel
  std::map<Seat, std::string> result_places_;               // URL of those that give some
  // Of the parts that give results, by copy.
  std::map<std::size_t, std::vector<std::unique_ptr<ResultsInbox>>> inboxes_;
  std::map<Seat, std::string> feed_places_;  // URL of those that take requests
  std::vector<std::unique_ptr<RequestFeed>> feeds_;
  std::map<std::size_t, StreamedBatch> pieces_;  // of the batch that is due, by part
  std::map<std::size_t, StageFlow> done_;        // of this attempt, by child
  std::map<std::size_t, std::string> proofs_;    // what the children signed last
  std::int64_t next_ = 0;                        // the batch that is due in this attempt
  std::vector<StageFlow> flows_;                 // by child
  Deadline batch_due_{};
};

std::vector<std::string> StreamProcesses::arguments(const Seat& seat) const {
  const RunCommand& command = job_.command;
  std::vector<std::string> words = {"stage", command.file.string(), "--infer", "--part",
                                    std::to_string(seat.part)};
  if (command.plan.empty()) {
    words.insert(words.end(), {"--parts", std::to_string(job_.parts.size())});
  } else {
    words.insert(words.end(),
                 {"--plan", command.plan.string(), "--copy", std::to_string(seat.copy)});
  }
  for (const auto& [name, value] : command.axes) {
    words.insert(words.end(), {"--axis", format("{}={}", name, value)});
  }
  for (const Binding& binding : command.bindings) {
    words.insert(words.end(), {"--bind", format("{}={}", binding.name, binding.spec)});
  }
  if (!command.weights.empty()) {
    words.insert(words.end(), {"--weights", command.weights.string()});
  }
  std::ranges::move(secure_words(command.secure, seat.part), std::back_inserter(words));
  words.insert(words.end(), {"--batch-size",    std::to_string(job_.settings.batch_size),
                             "--threads",       std::to_string(job_.settings.threads),
                             "--backend",       job_.settings.backend,
                             "--run",           run_,
                             "--restarts",      "0",
                             "--first-contact", std::to_string(kFirstContactSeconds),
                             "--deadline",      std::to_string(command.deadline_s),
                             "--in-flight",     std::to_string(command.in_flight),
                             "--delivered",     std::to_string(next_),
                             "--output",        "json"});
  for (std::string& word : bits_words(command.bits)) words.push_back(std::move(word));
  const PartCopies copies = copies_of(job_, seat);
  const auto meet_at = [&](const std::vector<std::string>& channels) {
    for (const std::string& name : channels) {
      words.insert(words.end(), {"--boundary", places_.at(name)});
    }
  };
  for (const ProducerNode& node : job_.parts[seat.part].producers()) {
    if (is_boundary_name(node.name)) meet_at(entering_channels(copies, node.name));
  }
  for (const ConsumerNode& node : job_.parts[seat.part].consumers()) {
    if (is_boundary_name(node.name)) meet_at(leaving_channels(copies, node.name));
  }
  const auto results = result_places_.find(seat);
  if (results != result_places_.end()) {
    words.insert(words.end(), {"--results", results->second});
  }
  const auto feed = feed_places_.find(seat);
  if (served_ != nullptr) words.emplace_back("--requests");
  if (feed != feed_places_.end()) words.insert(words.end(), {"--feed", feed->second});
  return words;
}

void StreamProcesses::start() {
  FreePlaces places(transport_from_name(job_.command.transport), job_.command.compress);
  run_ = "run-" + random_hex(kRunNameBytes);
  places_.clear();
  result_places_.clear();
  done_.clear();
  pieces_.clear();
  prepare_chains();
  // One chain covers all rows: after a loss a secure run computes them again, and those that have
  // come out are dropped.
  next_ = is_secure() ? 0 : tally_.delivered();
  TransportOptions options;
  options.run = run_;
  options.token = token_;
  for (const Seat& seat : seats_) choose_places(seat, places, options);
  if (served_ != nullptr) start_feeds(places, options);
  for (const Seat& seat : seats_) {
    std::vector<std::string> environment;
    if (!job_.command.trace.empty()) {
      const std::optional<std::size_t> copy =
          turns_[seat.part].copies() == 1 ? std::nullopt : std::optional(seat.copy);
      environment.push_back(
          format("{}={}", kTaskTraceVariable, pass_trace_file(job_, seat.part, copy).string()));
    }
    children_.start(arguments(seat), token_, environment);
  }
  batch_due_ = deadline_in(std::chrono::seconds(kFirstContactSeconds + job_.command.deadline_s));
}

void StreamProcesses::prepare_chains() const {
  const SecureFlags& secure = job_.command.secure;
  if (!is_secure()) return;
  static_cast<void>(signing_key(secure_options(secure)));  // made once, where there is none
  if (secure.proof.empty()) return;
  begin_chains(secure.proof, seats_.size(), "name another file");
}

void StreamProcesses::add_proofs(RunReport& report) const {
  if (!is_secure()) return;
  report.proof = joined(proofs_ | std::views::values, "\n");
  const std::filesystem::path& chain = job_.command.secure.proof;
  report.chain = chain.string();
  if (!chain.empty()) join_chains(chain, seats_.size());
}

// Every part that producers of the graph stand in takes the same batches of requests.
void StreamProcesses::start_feeds(FreePlaces& places, const TransportOptions& options) {
  feed_places_.clear();
  for (const Seat& seat : seats_) {
    std::vector<std::string> inputs = requested_inputs(job_.parts[seat.part]);
    if (inputs.empty()) continue;
    const RemoteBinding place = places.next(format("{}.requests{}", run_, seat.part));
    feed_places_.emplace(seat, binding_url(place));
    feeds_.push_back(std::make_unique<RequestFeed>(
        served_->service,
        RequestFeed::Place{std::move(inputs), place, tally_.delivered(),
                           std::chrono::seconds(job_.command.deadline_s)},
        options));
  }
}

// Where what leaves a part meets those that take it, and where its results come in.
void StreamProcesses::choose_places(const Seat& seat, FreePlaces& places,
                                    const TransportOptions& options) {
  const HarmonicGraph& graph = job_.parts[seat.part];
  const PartCopies copies = copies_of(job_, seat);
  for (const ConsumerNode& node : graph.consumers()) {
    if (!is_boundary_name(node.name)) continue;
    for (const std::string& name : leaving_channels(copies, node.name)) {
      places_[name] = binding_url(places.next(name));
    }
  }
  const bool is_last = seat.part + 1 == job_.parts.size();
  if (outputs_of(graph).empty() && graph.taps().empty() && !is_last) return;
  const RemoteBinding place = places.next(format("{}.results{}.{}", run_, seat.part, seat.copy));
  inboxes_[seat.part].push_back(std::make_unique<ResultsInbox>(graph, place, options));
  result_places_.emplace(seat, binding_url(place));
}

void StreamProcesses::hear(std::size_t child, const std::string& line) {
  const Json json = Json::parse(line, "event of a part");
  const std::string& kind = json.at("event").as_string();
  if (kind != "streamed") {
    fail(ErrorCode::kInvalidArgument, "a part told of an unknown event '{}'", kind);
  }
  proofs_[child] = json.at("proof").as_string();
  done_[child] = flow_of(json.at("stage"));
}

// Waits a moment for what is missing of the batch that is due.
void StreamProcesses::take_results() {
  const auto number = static_cast<std::uint64_t>(next_);
  for (const auto& [part, inboxes] : inboxes_) {
    if (pieces_.contains(part)) continue;
    std::optional<StreamedBatch> piece = inboxes[turns_[part].copy_of(number)]->next(kLookAfter);
    if (!piece) return;
    if (piece->number != next_) {
      fail(ErrorCode::kInternal, "part {} gave batch {} where {} was due", part, piece->number,
           next_);
    }
    pieces_.emplace(part, std::move(*piece));
  }
  if (!inboxes_.empty() && pieces_.size() == inboxes_.size()) deliver();
}

void StreamProcesses::deliver() {
  StreamedBatch batch;
  for (auto& [part, piece] : pieces_) {
    batch.number = piece.number;
    batch.rows = piece.rows;
    batch.taps += piece.taps;
    batch.outputs.merge(piece.outputs);
  }
  pieces_.clear();
  if (next_++ == tally_.delivered()) {
    for (const auto& [name, consumer] : tally_.consumers()) consumer->push(batch.outputs.at(name));
    tally_.add(batch);
    if (served_ != nullptr) {
      served_->service.deliver(batch.number, batch.outputs);
      served_->on_batch();
    }
  }
  batch_due_ = deadline_in(std::chrono::seconds(job_.command.deadline_s) + kAfterTheParts);
}

bool StreamProcesses::is_over() const {
  return done_.size() == children_.size() && children_.all_have_ended() && pieces_.empty() &&
         std::ranges::all_of(inboxes_, [](const auto& part) {
           return std::ranges::all_of(part.second, [](const auto& one) { return one->is_over(); });
         });
}

std::optional<Failure> StreamProcesses::find_hang() const {
  if (std::chrono::steady_clock::now() < batch_due_) return std::nullopt;
  return Failure{
      format("batch {} has not come out for {} s: a part hangs", next_, job_.command.deadline_s),
      true};
}

std::optional<Failure> StreamProcesses::attempt() {
  start();
  std::optional<Failure> failure;
  Deadline next_look{};
  while (!failure && !is_over()) {
    take_results();
    if (served_ == nullptr) tally_.check_interrupt();
    const Deadline now = std::chrono::steady_clock::now();
    if (now < next_look) continue;
    next_look = now + kLookAfter;
    children_.listen([&](std::size_t child, const std::string& line) { hear(child, line); });
    failure =
        children_.find_failure([&](std::size_t child) { return done_.contains(child); }, false);
    if (!failure) failure = find_hang();
  }
  feeds_.clear();
  children_.clear();  // kills the others
  inboxes_.clear();
  for (const auto& [child, flow] : done_) add_flow(flows_[child], flow);
  return failure;
}

RunReport StreamProcesses::run() {
  const RunCommand& command = job_.command;
  for (std::int64_t restart = 0;; ++restart) {
    const std::int64_t before = tally_.delivered();
    const std::optional<Failure> failure = attempt();
    if (!failure) {
      for (const auto& [name, consumer] : tally_.consumers()) consumer->finish();
      RunReport report = tally_.report();
      for (std::size_t child = 0; child < flows_.size(); ++child) {
        name_copy(flows_[child], job_, seats_[child]);
      }
      report.stages = flows_;
      report.restarts = restart;
      add_proofs(report);
      return report;
    }
    tally_.clear();
    if (served_ != nullptr) {
      served_->service.note_break(failure->what);
      if (tally_.delivered() > before) restart = 0;  // a service gets over any number of them
    }
    if (!failure->killed || restart >= command.restarts) {
      fail(ErrorCode::kAborted, "{}{}; {} batches had come out, no output was written",
           failure->what,
           failure->killed && restart > 0 ? format(" (after {} restarts)", restart) : "",
           tally_.delivered());
    }
    if (command.output != OutputStyle::kQuiet) {
      write_text(
          TextStream::kError,
          format("{}: all parts start again from batch {} (restart {} of {})\n", failure->what,
                 is_secure() ? 0 : tally_.delivered(), restart + 1, command.restarts));
    }
  }
}

}  // namespace

RunReport run_in_processes(const InferenceJob& job, InterruptWatch& watch) {
  return StreamProcesses(job, watch, nullptr).run();
}

void serve_in_processes(const InferenceJob& job, InterruptWatch& watch,
                        const ServedStream& served) {
  static_cast<void>(StreamProcesses(job, watch, &served).run());
}

}  // namespace harmonics::inline in_torch_program
