// Fewer bits over a slow link: rows a second through ViT-Base's boundary, exact, compressed and
// packed, and what packing does to the answers.
//
// The two parts are threads on two sides of a cable with a rate (network namespaces and tc). At
// 100 Mbit/s ViT-Base itself needs machines that compute 80 rows a second; so the boundary is also
// measured alone: the activations of the real network between two parts that cost nothing. The
// whole network runs over a cable that is as slow as this machine is.
#include <array>
#include <cstdio>
#include <thread>

#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/transport/packing.h>

#include "pieces/cable.h"
#include "pieces/made_rows.h"
#include "pieces/meeting.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr std::uint16_t kMeetingPort = 9000;

struct Scale {
  std::string network = "vit-base";
  std::int64_t link_rows = 64;
  std::int64_t batch = 8;
  double link_mbit = 100;
  std::int64_t network_rows = 16;
  double network_mbit = 4;
  std::int64_t judged_rows = 1000;
  int rounds = 3;
};

/// How a boundary is carried.
struct Way {
  const char* name;
  int bits;
  bool compress;
};
constexpr Way kExact = {"exact", 0, false};
constexpr Way kCompressed = {"zstd", 0, true};
constexpr Way kPacked16 = {"16 bits", 16, false};
constexpr Way kPacked8 = {"8 bits", 8, false};
constexpr Way kPacked4 = {"4 bits", 4, false};

RuntimeOptions one_thread() {
  RuntimeOptions options;
  options.threads = 1;
  return options;
}

/// Whether it brings what a layer reads, rather than targets or another part's tensor.
bool is_data(const HarmonicGraph& part, const ProducerNode& node) {
  return !is_boundary_name(node.name) &&
         std::ranges::any_of(part.layers(), [&](const LayerNode& layer) {
           return std::ranges::find(layer.inputs, node.name) != layer.inputs.end();
         });
}

/// What crosses the cable, and how.
struct Crossing {
  const std::vector<HarmonicGraph>& parts;
  const Tensor& rows;
  const Scale& scale;
  Way way;
};

/// The same rows again and again, as many as there are to be.
Tensor repeated(const Tensor& rows, std::int64_t count) {
  std::vector<Tensor> all;
  for (std::int64_t left = count; left > 0; left -= rows.shape()[0]) {
    all.push_back(rows.slice(0, std::min(left, rows.shape()[0])));
  }
  return concat_rows(all);
}

/// Seconds that one side of the cable takes.
double stream_part(const bench::Cable& cable, const Crossing& crossing, int side) {
  cable.enter(side);
  use_compute_threads(1);
  const HarmonicGraph& part = crossing.parts[static_cast<std::size_t>(side)];
  const Scale& scale = crossing.scale;
  RemoteBinding place{format("slow.{}", ::getpid()), bench::Cable::address(1), kMeetingPort};
  place.bits = crossing.way.bits;
  place.compress = crossing.way.compress;
  RemoteScheduler scheduler = bench::meeting_part(part, place, one_thread());
  const auto stream = [&](std::int64_t count) {
    NamedProducers producers;
    for (const ProducerNode& node : part.producers()) {
      if (!is_data(part, node)) continue;
      const auto rows = std::make_shared<MemoryProducer>(repeated(crossing.rows, count));
      producers.emplace(node.name, std::make_shared<BatchProducer>(rows, scale.batch));
    }
    static_cast<void>(scheduler.stream(producers, {}));
  };
  stream(scale.batch);  // the parts have met, and memory is warm
  return bench::measured([&] { stream(scale.link_rows); }).wall;
}

/// Rows a second.
double rate(const Crossing& crossing) {
  const bench::Cable cable(crossing.scale.link_mbit);
  double seconds[2] = {0, 0};
  std::string errors[2];
  std::vector<std::thread> sides;
  for (const int side : {0, 1}) {
    sides.emplace_back([&, side] {
      try {
        seconds[side] = stream_part(cable, crossing, side);
      } catch (const std::exception& error) {
        errors[side] = error.what();
      }
    });
  }
  for (std::thread& side : sides) side.join();
  for (const std::string& error : errors) {
    if (!error.empty()) fail(ErrorCode::kAborted, "{}", error);
  }
  return static_cast<double>(crossing.scale.link_rows) / std::max(seconds[0], seconds[1]);
}

double median_rate(const std::vector<HarmonicGraph>& parts, const Tensor& rows, const Scale& scale,
                   const Way& way) {
  std::vector<double> rates;
  for (int i = 0; i < scale.rounds; ++i) rates.push_back(rate({parts, rows, scale, way}));
  return bench::median(rates);
}

ProducerNode image_of(const HarmonicGraph& part) {
  for (const ProducerNode& node : part.producers()) {
    if (is_data(part, node)) return node;
  }
  fail(ErrorCode::kNotFound, "'{}' has no data", part.name());
}

/// What leaves the first half of the network for made images.
Tensor activations(const std::vector<HarmonicGraph>& parts, std::int64_t rows) {
  Stage first(parts[0], one_thread());
  const ProducerNode image = image_of(parts[0]);
  return first->infer({{image.name, bench::made_rows(image, rows, 2)}}).begin()->second;
}

/// Two parts with that boundary which cost nothing: the first passes on what it is given.
std::vector<HarmonicGraph> costless(const Tensor& boundary) {
  const Shape& shape = boundary.shape();
  return cut_graph(parse_harp(format(R"(
    producer given {{{}, {}}};
    consumer out;
    layer pass dropout(0.5);
    layer first select;
    layer head linear(10);
    cycle {{ given -> pass -> first -> head -> out; }})",
                                     shape.at(1), shape.at(2))),
                   std::vector<std::size_t>{0, 1});
}

std::string rows_text(double rate) { return format("{:.2f} rows/s", rate); }

bool compare(const std::string& title, const std::vector<HarmonicGraph>& parts, const Tensor& rows,
             const Scale& scale, bool judged) {
  const double exact = median_rate(parts, rows, scale, kExact);
  const double compressed = median_rate(parts, rows, scale, kCompressed);
  const double packed = median_rate(parts, rows, scale, kPacked8);
  bench::row(title + ", zstd to exact", rows_text(compressed), rows_text(exact), compressed / exact,
             "");
  for (const Way& way : {kPacked16, kPacked4}) {
    const double other = median_rate(parts, rows, scale, way);
    bench::row(format("{}, {} to exact", title, way.name), rows_text(other), rows_text(exact),
               other / exact, "");
  }
  const bool of_exact = bench::row(title + ", 8 bits to exact", rows_text(packed), rows_text(exact),
                                   packed / exact, judged ? ">= 3.5" : "");
  const bool of_zstd =
      bench::row(title + ", 8 bits to zstd", rows_text(packed), rows_text(compressed),
                 packed / compressed, judged ? ">= 2.5" : "");
  return of_exact && of_zstd;
}

std::size_t best(std::span<const float> values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

/// In how many rows packed boundaries lead to the same class as the exact one.
bool judge(const std::vector<HarmonicGraph>& parts, const Scale& scale, const std::string& bar) {
  constexpr std::array kBits = {8, 16};
  RuntimeOptions options;
  options.threads = 2;
  use_compute_threads(options.threads);
  Stage first(parts[0], options);
  Stage second(parts[1], options);
  const ProducerNode image = image_of(parts[0]);
  const Tensor images = bench::made_rows(image, scale.judged_rows, 2);
  std::array<std::int64_t, kBits.size()> same{};
  for (std::int64_t row = 0; row < scale.judged_rows; row += scale.batch) {
    const std::int64_t end = std::min(row + scale.batch, scale.judged_rows);
    const NamedTensors leaving = first->infer({{image.name, images.slice(row, end)}});
    const auto& [name, exact] = *leaving.begin();
    const Tensor answers = second->infer(leaving).begin()->second;
    for (std::size_t k = 0; k < kBits.size(); ++k) {
      const Tensor packed = unpack_tensor(pack_tensor(exact, kBits[k]));
      const Tensor others = second->infer({{name, packed}}).begin()->second;
      for (std::int64_t i = 0; i < end - row; ++i) {
        same[k] += best(answers.slice(i, i + 1).values<float>()) ==
                   best(others.slice(i, i + 1).values<float>());
      }
    }
  }
  bool good = true;
  for (std::size_t k = 0; k < kBits.size(); ++k) {
    const double share = static_cast<double>(same[k]) / static_cast<double>(scale.judged_rows);
    good =
        bench::row(format("{} with {} bits: rows with the same class", scale.network, kBits[k]),
                   format("{} rows", same[k]), format("{} rows", scale.judged_rows), share, bar) &&
        good;
  }
  return good;
}

Scale scale_of(int argc, char** argv) {
  Scale scale;
  if (bench::has_flag(argc, argv, "--short")) {
    return {"transformer-small", 32, 8, 100, 16, 2, 64, 1};
  }
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--judged") scale.judged_rows = std::atoll(argv[i + 1]);
    if (std::string_view(argv[i]) == "--rounds") scale.rounds = std::atoi(argv[i + 1]);
  }
  return scale;
}

}  // namespace

int main(int argc, char** argv) {
  const Scale scale = scale_of(argc, argv);
  const bool check = bench::has_flag(argc, argv, "--check");
  const bool long_run = !bench::has_flag(argc, argv, "--short");
  std::printf("name | ours | reference | ratio | bar\n");
  const HarmonicGraph network = zoo_graph(scale.network);
  const std::vector<HarmonicGraph> parts = partition_graph(network, 2);
  const Tensor boundary = activations(parts, scale.batch);
  bool good = true;
  const bool crosses = !bench::has_flag(argc, argv, "--judge-only");
  if (crosses && !bench::Cable(scale.link_mbit).is_laid()) {
    std::printf("a cable needs network namespaces and tc, which are not permitted here\n");
  } else if (crosses) {
    good = compare(format("boundary of {}, {:g} Mbit/s", scale.network, scale.link_mbit),
                   costless(boundary), boundary, scale, long_run);
    Scale whole = scale;
    whole.link_rows = scale.network_rows;
    whole.link_mbit = scale.network_mbit;
    whole.batch = 1;
    whole.rounds = 1;
    const Tensor images = bench::made_rows(image_of(parts[0]), scale.network_rows, 2);
    static_cast<void>(
        compare(format("{} in two parts, {:g} Mbit/s", scale.network, whole.link_mbit), parts,
                images, whole, false));
  }
  good = judge(parts, scale, long_run ? ">= 0.995" : "") && good;
  return check && !good ? 1 : 0;
}
