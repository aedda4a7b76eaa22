#include "serve_model.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/serve/grpc_front.h>
#include <harmonics/serve/http_front.h>
#include <harmonics/serve/service_producers.h>

#include "inference_job.h"
#include "run_stream.h"
#include "stage_meetings.h"

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::int64_t kQueuedBatches = 16;
// The longest that parts that wait for one another hear nothing.
constexpr Nanoseconds kServingIdle = std::chrono::seconds(5);

/// Where to listen, and for whom.
struct Doors {
  std::optional<ListenAddress> http;
  std::optional<ListenAddress> grpc;
  FrontAccess access;
};

Doors doors_of(const ServeFlags& flags) {
  Doors doors;
  doors.access = {shared_secret(flags.token_file), flags.tls_certificate.string(),
                  flags.tls_key.string(), flags.tls_authority.string()};
  const auto parse = [&](const std::string& text, std::optional<ListenAddress>& to) {
    if (text.empty()) return;
    to = parse_listen_address(text);
    check_access(*to, doors.access);
  };
  parse(flags.listen, doors.http);
  parse(flags.listen_grpc, doors.grpc);
  return doors;
}

// The rows of the embedding that looks this producer up; 0: none does.
std::int64_t looked_up_rows(const HarmonicGraph& graph, const std::string& producer) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& layer = graph.layers()[i];
    if (layer.type != "embedding" || layer.inputs.front() != producer) continue;
    const auto own = std::get<std::int64_t>(graph.full_attributes(i).at("rows"));
    rows = rows == 0 ? own : std::min(rows, own);
  }
  return rows;
}

ModelCard card_of(const InferenceJob& job) {
  const HarmonicGraph& graph = job.graph;
  ModelCard card{graph.name(), {}, {}, graph.axes(), job.settings.batch_size};
  for (const std::string& name : requested_inputs(graph)) {
    card.inputs.push_back({name, graph.spec(name), graph.named_extents(name),
                           is_floating(graph.spec(name).dtype) ? 0 : looked_up_rows(graph, name)});
  }
  for (const ConsumerNode& node : graph.consumers()) {
    card.outputs.push_back({node.name, graph.spec(node.input), graph.named_extents(node.input)});
  }
  if (card.inputs.empty() || card.outputs.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "graph '{}' takes no data or gives none: there is nothing "
         "to ask it",
         graph.name());
  }
  return card;
}

ServingTerms terms_of(const InferenceJob& job) {
  const RunCommand& command = job.command;
  const ServeFlags& flags = command.serve;
  const auto parts = static_cast<std::int64_t>(job.parts.size());
  ServingTerms terms;
  terms.max_wait = std::chrono::milliseconds(flags.max_wait_ms);
  terms.queue_rows =
      flags.queue_rows > 0 ? flags.queue_rows : kQueuedBatches * job.settings.batch_size;
  terms.request_deadline = std::chrono::milliseconds(flags.request_deadline_ms);
  terms.in_flight = command.in_flight > 0 ? command.in_flight : 2 * parts;
  if (parts > 1 || command.processes) {
    terms.idle =
        std::min<Nanoseconds>(kServingIdle, std::chrono::milliseconds(250) * command.deadline_s);
  }
  return terms;
}

/// A model behind its doors.
class ServedModel {
 public:
  ServedModel(const InferenceJob& job, const Doors& doors, InterruptWatch& watch)
      : job_(job),
        watch_(watch),
        service_(card_of(job), terms_of(job), clock_),
        drains_(watch.stop(), [this] { service_.drain(); }) {
    if (doors.http) http_ = std::make_unique<HttpFront>(service_, *doors.http, doors.access);
    if (doors.grpc) grpc_ = make_grpc_front(service_, *doors.grpc, doors.access);
    say_doors(doors);
  }

  void run();

 private:
  void say(const std::string& line) const {
    if (job_.command.output != OutputStyle::kQuiet) write_text(TextStream::kError, line + "\n");
  }
  void say_doors(const Doors& doors) const;
  void say_ready();
  void say_end() const;
  void stream_here();
  void stream_once();

  const InferenceJob& job_;
  InterruptWatch& watch_;
  const SteadyClock clock_;
  InferenceService service_;
  std::unique_ptr<HttpFront> http_;
  std::unique_ptr<GrpcFront> grpc_;
  const StopRequest::Alarm drains_;
  bool said_ready_ = false;
};

void ServedModel::say_doors(const Doors& doors) const {
  const auto line = [&](const char* scheme, ListenAddress address, std::uint16_t port) {
    address.port = port;
    const bool open = !doors.access.has_tls() && is_public(address);
    say(format("{} on {}{}{}", job_.graph.name(), scheme, listen_address_text(address),
               open ? " (without TLS: whoever listens on the way reads the token too)" : ""));
  };
  if (http_) line(doors.access.has_tls() ? "https://" : "http://", *doors.http, http_->port());
  if (grpc_) line("grpc://", *doors.grpc, grpc_->port());
}

void ServedModel::say_ready() {
  if (said_ready_ || service_.state() == ServiceState::kStarting) return;
  said_ready_ = true;
  const std::vector<std::int64_t> sizes = service_.batch_sizes();
  std::vector<std::string> texts;
  for (const std::int64_t size : sizes) texts.push_back(std::to_string(size));
  if (!sizes.empty()) {
    say(format("ready: requests share batches of {} rows", listed(texts)));
  } else if (!job_.graph.axes().empty()) {
    say("ready: samples have no fixed length, so every request is computed alone (--axis fixes "
        "it)");
  } else {
    say("ready: the bits of a row depend on its place in a batch here, so every request is "
        "computed "
        "alone");
  }
}

void ServedModel::say_end() const {
  const ServiceFigures figures = service_.figures();
  say(format("served {}: {} requests with {} rows in {} batches; {} refused, {} expired, {} failed",
             job_.graph.name(), figures.answered, figures.rows, figures.batches, figures.refused,
             figures.expired, figures.failed));
}

void ServedModel::stream_once() {
  const std::unique_ptr<Learner> learner = inference_learner(job_);
  learner->load_weights(job_.command.weights);
  StreamOptions options;
  options.in_flight = static_cast<std::size_t>(job_.command.in_flight);
  options.delivered = service_.delivered();
  options.on_batch = [&](const StreamedBatch& batch) {
    service_.deliver(batch.number, batch.outputs);
    watch_.step_done();
    say_ready();
  };
  static_cast<void>(
      learner->stream(service_producers(service_, requested_inputs(job_.graph)), {}, options));
  learner->close();
}

// A stream that breaks begins again with what was under way, unless nothing comes out of it.
void ServedModel::stream_here() {
  for (std::int64_t restart = 0;; ++restart) {
    const std::int64_t before = service_.delivered();
    try {
      return stream_once();
    } catch (const Error& error) {
      service_.note_break(error.what());
      if (service_.delivered() > before) restart = 0;
      if (service_.state() == ServiceState::kStarting || restart >= job_.command.restarts) throw;
      say(format("{}: the stream begins again at batch {}", error.what(), service_.delivered()));
    }
  }
}

void ServedModel::run() {
  try {
    if (job_.command.processes) {
      serve_in_processes(job_, watch_, {service_, [this] { say_ready(); }});
    } else {
      stream_here();
    }
  } catch (const Error& error) {
    service_.end(error.what());
    throw;
  }
  service_.end("the service has ended");
  http_.reset();
  grpc_.reset();
  say_end();
}

int serve_watched(const RunCommand& command, const Doors& doors, InterruptWatch& watch) {
  const InferenceJob job = prepare_service(command);
  if (is_int8_network(job.command.weights)) {
    fail(ErrorCode::kUnimplemented,
         "'{}' is an int8 network, which is not served: leave out "
         "--listen",
         job.command.weights.string());
  }
  watch.check("before the service was up");
  ServedModel(job, doors, watch).run();
  return kExitDone;
}

}  // namespace

int serve_model(const RunCommand& command, InterruptWatch& watch) {
  Doors doors;
  try {
    doors = doors_of(command.serve);
  } catch (const Error& error) {
    write_text(TextStream::kError, format("harmonics: {}\n", error.what()));
    return kExitUsage;
  }
  return run_interruptible(watch, [&] { return serve_watched(command, doors, watch); });
}

}  // namespace harmonics::inline in_torch_program
