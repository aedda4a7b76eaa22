#include "data.h"

#include <filesystem>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/data/memory_producer.h>

#include "arrays.h"
#include "core.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace harmonics::python {
namespace {

/// A feed as Python hands it over.
struct Feed {
  std::shared_ptr<FedProducer> producer;
};

// Rows of one number are samples of one number, as in files.
Tensor as_rows(Tensor tensor) {
  if (tensor.shape().size() != 1) return tensor;
  const std::int64_t rows = tensor.shape()[0];
  return tensor.reshaped({rows, 1});
}

Feed feed_of(nb::object feed, std::string name, nb::handle first,
             std::optional<std::int64_t> batches) {
  const Tensor look = as_rows(tensor_of(first, "a batch of '" + name + "'"));
  if (look.shape().empty()) {
    fail(ErrorCode::kInvalidArgument, "a batch of '{}' has no axis for its rows", name);
  }
  Shape sample(look.shape().begin() + 1, look.shape().end());
  return {
      std::make_shared<FedProducer>(std::move(feed), std::move(name),
                                    FedProducer::Look{{std::move(sample), look.dtype()}, batches})};
}

const ProducerNode& producer_named(const HarmonicGraph& graph, const std::string& name) {
  if (const auto index = graph.producer_index(name)) return graph.producers()[*index];
  fail(ErrorCode::kInvalidArgument, "graph '{}' has no producer '{}'; there are {}", graph.name(),
       name, listed(graph.producers(), [](const ProducerNode& one) { return one.name; }));
}

}  // namespace

FedProducer::FedProducer(nb::object feed, std::string name, Look look)
    : feed_(std::move(feed)), name_(std::move(name)), look_(std::move(look)) {}

FedProducer::~FedProducer() {
  if (!nb::is_alive()) {
    static_cast<void>(feed_.release());
    return;
  }
  const nb::gil_scoped_acquire held;
  feed_.reset();
}

void FedProducer::begin_epoch(const SampleOrder& order) {
  const nb::gil_scoped_acquire held;
  feed_.attr("begin")(name_, order.epoch);
  position_ = {order, 0};
}

std::optional<Tensor> FedProducer::next() {
  const nb::gil_scoped_acquire held;
  const nb::object array = feed_.attr("next")(name_);
  if (array.is_none()) return std::nullopt;
  Tensor batch = as_rows(tensor_of(array, "a batch of '" + name_ + "'", look_.sample.dtype));
  ++position_.delivered;
  return batch;
}

void ChangingProducer::change(ProducerPtr source, const std::string& producer) {
  if (source->sample_spec() != source_->sample_spec()) {
    fail(ErrorCode::kInvalidArgument,
         "producer '{}' had samples of {}, and now gets {}: make another runtime for them",
         producer, spec_text(source_->sample_spec()), spec_text(source->sample_spec()));
  }
  source_ = std::move(source);
}

std::map<std::string, TensorSpec> GivenData::specs() const {
  std::map<std::string, TensorSpec> made;
  for (const auto& [name, source] : rows) made[name] = source->sample_spec();
  for (const auto& [name, source] : fed) made[name] = source->sample_spec();
  return made;
}

GivenData given_data(const HarmonicGraph& graph, const nb::dict& data) {
  GivenData made;
  std::vector<SourceBinding> texts;
  for (const auto& [key, value] : data) {
    const std::string name = nb::cast<std::string>(key);
    const ProducerNode& node = producer_named(graph, name);
    if (nb::isinstance<nb::str>(value)) {
      texts.push_back({name, nb::cast<std::string>(value), std::filesystem::current_path(),
                       "data of '" + name + "'"});
    } else if (nb::isinstance<Feed>(value)) {
      made.fed[name] = nb::cast<Feed>(value).producer;
    } else {
      made.rows[name] = std::make_shared<MemoryProducer>(
          as_rows(tensor_of(value, "data of '" + name + "'", node.dtype)));
    }
  }
  made.rows.merge(open_sources(graph, texts));
  return made;
}

void bind_data(nb::module_& module) {
  nb::class_<Feed>(module, "Feed", "Batches that an object of Python yields, for one producer.");
  module.def("_feed", &feed_of, "feed"_a, "name"_a, "first"_a, "batches"_a.none());
}

}  // namespace harmonics::python
