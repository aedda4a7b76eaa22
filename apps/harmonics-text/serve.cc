// harmonics serve: a language model behind OpenAI's API.
#include <signal.h>
#include <time.h>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/serve/text_front.h>

#include "stage_places.h"
#include "subcommands.h"
#include "text_model.h"

namespace harmonics::inline in_text_program {
namespace {

// Signals that ask for an end, which only wait_for_end sees; before any thread is made.
sigset_t hold_signals() {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

// Until a signal comes, or the stages have failed for good.
void wait_for_end(const sigset_t& ends, const TextFront& front) {
  const timespec moment{1, 0};
  while (::sigtimedwait(&ends, nullptr, &moment) < 0) {
    const std::string why = front.failure();
    if (!why.empty()) fail(ErrorCode::kAborted, "the model failed: {}", why);
  }
}

}  // namespace

int serve(const ServeCommand& command) {
  const sigset_t ends = hold_signals();
  const ListenAddress address = parse_listen_address(command.listen);
  const FrontAccess access{secret_of(command.token_file, "HARMONICS_TOKEN"),
                           command.tls_certificate.string(), command.tls_key.string(),
                           command.tls_authority.string()};
  check_access(address, access);
  TextModel model = open_text_model(command.model);
  TextTerms terms;
  terms.name = command.name.empty() ? command.model.model.stem().string() : command.name;
  terms.max_tokens = command.max_tokens;
  terms.max_sequences = static_cast<std::size_t>(command.model.sequences);
  terms.max_waiting = static_cast<std::size_t>(command.queue);
  terms.prefill_chunk = command.model.chunk;
  TextFront front(*model.pipeline, model.texts, terms, address, access);
  write_text(TextStream::kError,
             format("serving {} on {}://{}\n", terms.name, access.has_tls() ? "https" : "http",
                    listen_address_text({address.host, front.port()})));
  wait_for_end(ends, front);
  write_text(TextStream::kError, "ends once running answers have\n");
  return kExitDone;
}

}  // namespace harmonics::inline in_text_program
