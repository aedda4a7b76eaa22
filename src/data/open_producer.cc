#include <harmonics/data/open_producer.h>

#include <map>
#include <mutex>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/data/csv_producer.h>
#include <harmonics/data/idx_producer.h>
#include <harmonics/data/npy_producer.h>
#include <harmonics/data/producer_settings.h>
#include <harmonics/data/synthetic_producer.h>

#include "column_schemes.h"

namespace harmonics::inline in_data {
namespace {

bool allows_nan(const ProducerSettings& settings) {
  return settings.choice("nan", {"refuse", "allow"}).value_or(0) == 1;
}

IndexedProducerPtr open_csv(const ProducerSettings& settings, const OpenBytes& open) {
  settings.allow({"columns", "dtype", "scale", "shape", "header", "delimiter", "nan"});
  CsvOptions options;
  if (const auto* columns = settings.text("columns")) options.columns = *columns;
  options.dtype = settings.dtype().value_or(options.dtype);
  options.scale = settings.number<double>("scale").value_or(options.scale);
  options.shape = settings.shape().value_or(Shape{});
  options.allow_nan = allows_nan(settings);
  options.header =
      static_cast<CsvHeader>(settings.choice("header", {"auto", "yes", "no"}).value_or(0));
  if (const auto* delimiter = settings.text("delimiter")) {
    if (*delimiter != "tab" && delimiter->size() != 1) settings.wrong("delimiter", "one character");
    options.delimiter = *delimiter == "tab" ? '\t' : delimiter->front();
  }
  return std::make_shared<CsvProducer>(settings.bytes(open), std::move(options));
}

template <typename FileProducer>
IndexedProducerPtr open_array(const ProducerSettings& settings, const OpenBytes& open) {
  settings.allow({"dtype", "scale", "nan"});
  const ArrayOptions options{settings.dtype(), settings.number<double>("scale").value_or(1.0),
                             allows_nan(settings)};
  return std::make_shared<FileProducer>(settings.bytes(open), options);
}

IndexedProducerPtr open_synthetic(const ProducerSettings& settings, const OpenBytes&) {
  settings.allow({"shape", "size", "kind", "below", "dtype", "seed"});
  const auto size = settings.number<std::int64_t>("size");
  if (!size) {
    fail(ErrorCode::kInvalidArgument, "synthetic data needs a size: write synthetic:?size=1000");
  }
  SyntheticOptions options;
  options.dtype = settings.dtype();
  options.below = settings.number<std::int64_t>("below").value_or(options.below);
  // Classes and ids, where a bound or the dtype says so.
  const bool whole =
      settings.text("below") != nullptr || (options.dtype && !is_floating(*options.dtype));
  const auto kind = settings.choice("kind", {"uniform", "normal", "integers", "one_hot"});
  options.kind = kind    ? static_cast<SyntheticKind>(*kind)
                 : whole ? SyntheticKind::kIntegers
                         : SyntheticKind::kUniform;
  const bool one_hot = options.kind == SyntheticKind::kOneHot;
  options.shape = settings.shape().value_or(one_hot ? Shape{options.below} : options.shape);
  options.seed = settings.number<std::uint64_t>("seed").value_or(0);
  return std::make_shared<SyntheticProducer>(*size, std::move(options));
}

[[noreturn]] void no_columns(const ProducerSettings& settings) {
  fail(ErrorCode::kUnimplemented,
       "'{}:{}': this program reads no Parquet or Arrow files; link harmonics::data_arrow (of a "
       "build with HARMONICS_WITH_ARROW=ON, for which scripts/arrow.sh fetches Arrow)",
       settings.scheme(), settings.path());
}

}  // namespace

// Stand-ins: a program that links the part gets the part's own.
[[gnu::weak]] IndexedProducerPtr open_parquet(const ProducerSettings& settings, const OpenBytes&) {
  no_columns(settings);
}

[[gnu::weak]] IndexedProducerPtr open_arrow(const ProducerSettings& settings, const OpenBytes&) {
  no_columns(settings);
}

namespace {

// What is known, by scheme; later modules add theirs.
struct Schemes {
  std::mutex mutex;
  std::map<std::string, OpenScheme, std::less<>> known = {{"arrow", open_arrow},
                                                          {"csv", open_csv},
                                                          {"idx", open_array<IdxProducer>},
                                                          {"npy", open_array<NpyProducer>},
                                                          {"parquet", open_parquet},
                                                          {"synthetic", open_synthetic}};
};

Schemes& schemes() {
  static Schemes all;
  return all;
}

}  // namespace

void register_producer_scheme(std::string scheme, OpenScheme open) {
  const std::lock_guard lock(schemes().mutex);
  const auto [place, added] = schemes().known.emplace(std::move(scheme), std::move(open));
  if (!added) {
    fail(ErrorCode::kAlreadyExists, "a source of the scheme '{}' is registered already",
         place->first);
  }
}

namespace {

IndexedProducerPtr opened(std::string_view spec, const ProducerSettings& settings,
                          const OpenBytes& open) {
  OpenScheme open_scheme;
  {
    const std::lock_guard lock(schemes().mutex);
    const auto found = schemes().known.find(settings.scheme());
    if (found == schemes().known.end()) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' names no kind of data: write csv:PATH, idx:PATH or synthetic:?size=N (kinds: {})",
           spec, listed(schemes().known, [](const auto& each) { return each.first; }));
    }
    open_scheme = found->second;
  }
  return open_scheme(settings, open);
}

}  // namespace

IndexedProducerPtr open_producer(std::string_view spec, const std::filesystem::path& relative_to) {
  return opened(spec, ProducerSettings(spec, relative_to),
                [&](const std::string& path) { return open_file((relative_to / path).string()); });
}

IndexedProducerPtr open_producer(std::string_view spec, const OpenBytes& open) {
  return opened(spec, ProducerSettings(spec), open);
}

}  // namespace harmonics::inline in_data
