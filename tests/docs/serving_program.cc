// The program of docs/guides/serving.md, as it stands there: built, not run.
#include <harmonics/harmonics.h>
using namespace harmonics;

int main() {
  CycleRuntime runtime(load_harp("digits.harp"));
  runtime.load_weights("digits.safetensors");
  const SteadyClock clock;
  ServingTerms terms;
  terms.queue_rows = 512;
  InferenceService service({"digits", {{"image", {{64}}}}, {{"prediction", {{10}}}}, {}, 32}, terms,
                           clock);
  const HttpFront front(service, parse_listen_address("localhost:8000"), {});
  StreamOptions options;
  options.on_batch = [&](const StreamedBatch& batch) {
    service.deliver(batch.number, batch.outputs);
  };
  const std::vector<std::string> inputs = {"image"};
  runtime.stream(service_producers(service, inputs), {}, options);
}
