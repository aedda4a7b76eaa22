// What the files of the C interface share: its opaque objects and the place where exceptions stop.
#pragma once

#include "harmonics_c.h"

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/data/memory_consumer.h>
#include <harmonics/data/producer.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/transport/transport.h>

struct hm_graph {
  harmonics::HarmonicGraph graph;
};
struct hm_producer {
  harmonics::ProducerPtr producer;
};
struct hm_consumer {
  std::shared_ptr<harmonics::MemoryConsumer> consumer;
};
struct hm_end {
  harmonics::TransportPtr transport;
  /// "bus", or the scheme of the endpoint.
  std::string kind;
};
struct hm_tensors {
  explicit hm_tensors(harmonics::NamedTensors named);
  std::vector<std::string> names;
  std::vector<harmonics::Tensor> tensors;
};

namespace harmonics::border {

/// Keeps the text for hm_last_error and answers the code.
int remember(ErrorCode code, std::string_view text) noexcept;

/// Runs `work`; what it throws becomes a code and a text.
template <typename Work>
int guarded(Work&& work) noexcept {
  try {
    work();
    return 0;
  } catch (const Error& error) {
    return remember(error.code(), exception_text(error));
  } catch (const std::bad_alloc&) {
    return remember(ErrorCode::kResourceExhausted, "out of memory");
  } catch (...) {
    return remember(ErrorCode::kInternal, current_exception_text());
  }
}

/// The text; null is an Error that names the argument.
[[nodiscard]] std::string_view text_of(const char* text, std::string_view argument);
/// The object behind a handle; null is an Error that names the argument.
template <typename Object>
[[nodiscard]] Object& object_of(Object* object, std::string_view argument) {
  if (object == nullptr) fail(ErrorCode::kInvalidArgument, "'{}' is null", argument);
  return *object;
}

/// Memory that hm_free frees.
[[nodiscard]] char* copy_text(std::string_view text);

/// The dtype of that name; another name is an Error.
[[nodiscard]] DType dtype_of(const char* name);
[[nodiscard]] Shape shape_of(const std::int64_t* axes, std::int32_t rank);

/// A tensor over the caller's memory, which is released when the last user is gone.
[[nodiscard]] Tensor adopt(const hm_tensor& tensor);
/// The same for several, by name. All are taken over, also when one is an Error.
[[nodiscard]] NamedTensors adopt(const hm_tensor* tensors, std::size_t count);

}  // namespace harmonics::border
