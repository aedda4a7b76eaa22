#include <filesystem>

#include <harmonics/base/json.h>
#include <harmonics/data/augment_producer.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/byte_source.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>

#include "border.h"

using namespace harmonics;
using namespace harmonics::border;

namespace {

/// Samples that the caller's function makes.
class CalledProducer final : public IndexedProducer {
 public:
  /// `context` is released with the last copy of the pointer.
  CalledProducer(const hm_rows& rows, std::shared_ptr<void> context)
      : row_count_(rows.row_count), read_(rows.read), context_(std::move(context)) {
    if (row_count_ < 0) fail(ErrorCode::kInvalidArgument, "{} rows make no sense", row_count_);
    spec_ = {shape_of(rows.shape, rows.rank), dtype_of(rows.dtype)};
    static_cast<void>(element_count(spec_.shape));
  }

  [[nodiscard]] TensorSpec sample_spec() const override { return spec_; }
  [[nodiscard]] std::int64_t row_count() const override { return row_count_; }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override {
    check_read(rows, out);
    char error[512] = "";
    const hm_row_request request = {rows.data(), std::ssize(rows), out.data(), out.size(),
                                    error,       sizeof error};
    if (read_(context_.get(), &request) != 0) {
      error[sizeof error - 1] = '\0';
      fail(ErrorCode::kDataLoss, "samples could not be read: {}", error);
    }
  }

 private:
  TensorSpec spec_;
  const std::int64_t row_count_;
  int (*const read_)(void* context, const hm_row_request* request);
  const std::shared_ptr<void> context_;
};

/// A file that the caller's function reads.
class CalledBytes final : public ByteSource {
 public:
  CalledBytes(std::string name, const hm_bytes& bytes, std::shared_ptr<void> context)
      : ByteSource(std::move(name), bytes.size), read_(bytes.read), context_(std::move(context)) {}

  void read_at(std::uint64_t offset, std::span<char> out) const override {
    if (out.empty()) return;
    char error[512] = "";
    const hm_byte_request request = {offset, out.data(), out.size(), error, sizeof error};
    if (read_(context_.get(), &request) != 0) {
      error[sizeof error - 1] = '\0';
      fail(ErrorCode::kDataLoss, "cannot read '{}': {}", path(), error);
    }
  }

 private:
  int (*const read_)(void* context, const hm_byte_request* request);
  const std::shared_ptr<void> context_;
};

/// What the caller made, released with the last copy.
std::shared_ptr<void> kept(void* context, void (*release)(void*)) {
  return {context, [release](void* object) {
            if (release != nullptr) release(object);
          }};
}

IndexedProducerPtr indexed(const hm_producer* source) {
  auto found = std::dynamic_pointer_cast<IndexedProducer>(object_of(source, "source").producer);
  if (!found) {
    fail(ErrorCode::kInvalidArgument,
         "only samples that can be read in any order can be shared out or kept in memory: do that "
         "before they are shuffled, changed or put into batches");
  }
  return found;
}

std::vector<float> floats(const Json& list) {
  std::vector<float> values;
  for (const Json& each : list.as_array()) values.push_back(static_cast<float>(each.as_number()));
  return values;
}

AugmentOptions augment_options(std::string_view text) {
  AugmentOptions options;
  const Json json = Json::parse(text, "augment");
  for (const auto& [key, value] : json.as_object()) {
    if (key == "crop_padding") {
      options.crop_padding = value.as_integer();
    } else if (key == "flip") {
      options.flip = value.as_bool();
    } else if (key == "noise") {
      options.noise = static_cast<float>(value.as_number());
    } else if (key == "mean") {
      options.mean = floats(value);
    } else if (key == "deviation") {
      options.deviation = floats(value);
    } else if (key == "seed") {
      options.seed = static_cast<std::uint64_t>(value.as_integer());
    } else {
      fail(ErrorCode::kInvalidArgument,
           "augment: unknown key '{}'; there are crop_padding, flip, noise, mean, deviation and "
           "seed",
           key);
    }
  }
  return options;
}

IndexedProducerPtr csv(const std::string& path, const std::string& settings,
                       std::int64_t row_limit) {
  const std::string spec = "csv:" + path.substr(0, path.find('?')) + "?" + settings;
  IndexedProducerPtr made;
  try {
    made = open_producer(spec, [&](const std::string&) { return open_file(path); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound || path.find('?') == std::string::npos) throw;
    fail(ErrorCode::kNotFound,
         "{}; what follows a '?' is part of the file's name here: give options beside the path",
         error.what());
  }
  if (row_limit > 0 && made->row_count() > row_limit) {
    fail(ErrorCode::kInvalidArgument, "'{}' has {} rows, more than the limit of {}", path,
         made->row_count(), row_limit);
  }
  return made;
}

int make_producer(hm_producer** out, auto make) {
  return guarded([&] { object_of(out, "out") = new hm_producer{make()}; });
}

}  // namespace

extern "C" {

int hm_producer_csv(const char* path, const char* settings, int64_t row_limit, hm_producer** out) {
  return make_producer(out, [&] {
    return csv(std::string(text_of(path, "path")), settings == nullptr ? "" : settings, row_limit);
  });
}

int hm_producer_open(const char* source, const char* folder, hm_producer** out) {
  return make_producer(
      out, [&] { return open_producer(text_of(source, "source"), text_of(folder, "folder")); });
}

int hm_producer_open_bytes(const char* source, const hm_bytes* bytes, hm_producer** out) {
  return make_producer(out, [&] {
    const hm_bytes& given = object_of(bytes, "bytes");
    const std::shared_ptr<void> context = kept(given.context, given.release);
    return open_producer(text_of(source, "source"), [&](const std::string& path) {
      return std::make_shared<CalledBytes>(path, given, context);
    });
  });
}

int hm_producer_rows(const hm_rows* rows, hm_producer** out) {
  return make_producer(out, [&] {
    const hm_rows& given = object_of(rows, "rows");
    return std::make_shared<CalledProducer>(given, kept(given.context, given.release));
  });
}

int hm_producer_shuffle(const hm_producer* source, hm_producer** out) {
  return make_producer(
      out, [&] { return std::make_shared<ShuffleProducer>(object_of(source, "source").producer); });
}

int hm_producer_batch(const hm_producer* source, int64_t batch_size, hm_producer** out) {
  return make_producer(out, [&] {
    return std::make_shared<BatchProducer>(object_of(source, "source").producer, batch_size);
  });
}

int hm_producer_cache(const hm_producer* source, uint64_t limit_bytes, hm_producer** out) {
  return make_producer(
      out, [&] { return std::make_shared<CacheProducer>(indexed(source), limit_bytes); });
}

int hm_producer_augment(const hm_producer* source, const char* options, hm_producer** out) {
  return make_producer(out, [&] {
    return std::make_shared<AugmentProducer>(object_of(source, "source").producer,
                                             augment_options(text_of(options, "options")));
  });
}

int hm_producer_stride(const hm_producer* source, int64_t first, int64_t count, hm_producer** out) {
  return make_producer(out, [&] {
    const IndexedProducerPtr all = indexed(source);
    if (count < 1 || first < 0 || first >= count) {
      fail(ErrorCode::kInvalidArgument, "share {} of {} makes no sense", first, count);
    }
    std::vector<std::int64_t> rows;
    for (std::int64_t row = first; row < all->row_count(); row += count) rows.push_back(row);
    return std::make_shared<SliceProducer>(all, std::move(rows));
  });
}

int hm_producer_samples(const hm_producer* producer, int64_t* out) {
  return guarded([&] {
    object_of(out, "out") = object_of(producer, "producer").producer->sample_count().value_or(-1);
  });
}

void hm_producer_free(hm_producer* producer) { delete producer; }

int hm_consumer_memory(hm_consumer** out) {
  return guarded(
      [&] { object_of(out, "out") = new hm_consumer{std::make_shared<MemoryConsumer>()}; });
}

int hm_consumer_take(const hm_consumer* consumer, hm_tensors** out) {
  return guarded([&] {
    NamedTensors named;
    named["rows"] = object_of(consumer, "consumer").consumer->rows();
    object_of(out, "out") = new hm_tensors(std::move(named));
  });
}

void hm_consumer_free(hm_consumer* consumer) { delete consumer; }

}  // extern "C"
