// harmonics serve: a language model behind OpenAI's API.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/private_file.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/runtime/token_encoder.h>
#include <harmonics/serve/embedding_front.h>
#include <harmonics/serve/text_front.h>

#include "stage_places.h"
#include "subcommands.h"
#include "text_model.h"

namespace harmonics::inline in_text_program {
namespace {

constexpr int kTellEvery = 10;
constexpr std::size_t kMaxKeysFile = std::size_t{4} << 20;

// Signals that ask for an end, which only wait_for_end sees; before any thread is made.
sigset_t hold_signals() {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

// As a task of a cluster: where it can be asked, on the descriptor for progress.
void tell_address(const std::string& address) {
  const auto descriptor = number_from<int>(environment_text("HARMONICS_PROGRESS_FD"));
  if (!descriptor) return;
  const std::string line = Json().set("address", address).dump() + "\n";
  static_cast<void>(!::write(*descriptor, line.data(), line.size()));
}

// Until a signal comes, or the stages have failed for good.
void wait_for_end(const sigset_t& ends, const std::string& address, const TextFront* front) {
  const timespec moment{1, 0};
  // Told again now and then: a server that was restarted has forgotten it.
  for (int second = 0; ::sigtimedwait(&ends, nullptr, &moment) < 0; ++second) {
    if (second % kTellEvery == 0) tell_address(address);
    const std::string why = front ? front->failure() : "";
    if (!why.empty()) fail(ErrorCode::kAborted, "the model failed: {}", why);
  }
  write_text(TextStream::kError, "ends once running answers have\n");
}

// Gives the address as clients spell it.
std::string say_where(const std::string& name, const ListenAddress& address,
                      const FrontAccess& access) {
  const std::string url =
      format("{}://{}", access.has_tls() ? "https" : "http", listen_address_text(address));
  write_text(TextStream::kError, format("serving {} on {}\n", name, url));
  return url;
}

FrontAccess access_of(const ServeCommand& command) {
  FrontAccess access{secret_of(command.token_file, "HARMONICS_TOKEN"),
                     command.tls_certificate.string(), command.tls_key.string(),
                     command.tls_authority.string()};
  if (!command.keys_file.empty()) {
    require_private(command.keys_file, "a list of keys");
    access.keys = parse_client_keys(read_text_file(command.keys_file, kMaxKeysFile),
                                    command.keys_file.string());
  }
  return access;
}

std::string name_of(const ServeCommand& command) {
  return command.name.empty() ? command.model.model.stem().string() : command.name;
}

// A model that reads: its vectors.
int serve_embeddings(const ServeCommand& command, const TextGraph& graph,
                     const ListenAddress& address, const sigset_t& ends) {
  const TextModelFlags& model = command.model;
  if (!std::filesystem::is_directory(model.model)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is an encoder: name the folder from Hugging Face, which says how vectors of tokens "
         "become one of their text",
         model.model.string());
  }
  if (model.parts > 1 || model.processes || !model.plan.empty()) {
    fail(ErrorCode::kUnimplemented,
         "'{}' is an encoder, which is computed in one process: leave out --parts, --processes and "
         "--plan",
         model.model.string());
  }
  if (model.computing.backend == TextBackend::kGpu) {
    log_warn("text", "'{}' is an encoder, which has no way on a GPU: using the CPU instead",
             model.model.string());
  }
  const FrontAccess access = access_of(command);
  TextEmbedder embedder(graph.graph, graph.weights, model.model, static_cast<int>(model.threads));
  EmbeddingFront front(embedder, {name_of(command), static_cast<std::size_t>(command.queue)},
                       address, access);
  const std::string url = say_where(name_of(command), {address.host, front.port()}, access);
  wait_for_end(ends, url, nullptr);
  return kExitDone;
}

}  // namespace

int serve(const ServeCommand& command) {
  const sigset_t ends = hold_signals();
  const ListenAddress address = parse_listen_address(command.listen);
  const FrontAccess access = access_of(command);
  check_access(address, access);
  TextGraph graph = open_text_graph(command.model.model, command.model.weights);
  if (is_encoder(graph.graph)) return serve_embeddings(command, graph, address, ends);
  TextModel model = open_text_model(command.model, std::move(graph));
  TextTerms terms;
  terms.name = name_of(command);
  terms.max_tokens = command.max_tokens;
  terms.max_sequences = static_cast<std::size_t>(command.model.sequences);
  terms.max_waiting = static_cast<std::size_t>(command.queue);
  terms.prefill_chunk = command.model.chunk;
  TextFront front(*model.pipeline, model.texts, terms, address, access);
  if (model.backend == "gpu") write_text(TextStream::kError, "computes on a GPU\n");
  const std::string url = say_where(terms.name, {address.host, front.port()}, access);
  wait_for_end(ends, url, &front);
  return kExitDone;
}

}  // namespace harmonics::inline in_text_program
