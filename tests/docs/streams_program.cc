// The program of docs/guides/streams.md, as it stands there: built, not run.
#include <harmonics/harmonics.h>
using namespace harmonics;

int main() {
  DistributedScheduler scheduler(partition_graph(load_harp("digits.harp"), 3));
  scheduler.load_weights("digits.safetensors");
  const auto rows = open_producer("csv:digits.csv?columns=0-63&scale=0.0625");
  const auto answers = std::make_shared<CsvConsumer>("rows.csv");
  StreamOptions options;
  options.in_flight = 6;
  options.on_batch = [](const StreamedBatch& batch) {
    log_info("digits", "batch {}: {} rows", batch.number, batch.rows);
  };
  const StreamReport report = scheduler.stream(
      {{"image", std::make_shared<BatchProducer>(rows, 32)}}, {{"prediction", answers}}, options);
  return report.rows == 0;
}
