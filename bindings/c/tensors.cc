#include <cstdlib>

#include <harmonics/runtime/safetensors.h>
#include <harmonics/tensor/tensor.h>

#include "border.h"

namespace harmonics::border {
namespace {

thread_local std::string last_error;

}  // namespace

int remember(ErrorCode code, std::string_view text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return static_cast<int>(code);
}

std::string_view text_of(const char* text, std::string_view argument) {
  if (text == nullptr) fail(ErrorCode::kInvalidArgument, "'{}' is null", argument);
  return text;
}

char* copy_text(std::string_view text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

DType dtype_of(const char* name) {
  const std::optional<DType> dtype = dtype_from_name(text_of(name, "dtype"));
  if (!dtype) fail(ErrorCode::kInvalidArgument, "there is no dtype '{}'", name);
  return *dtype;
}

Shape shape_of(const std::int64_t* axes, std::int32_t rank) {
  if (rank < 0) fail(ErrorCode::kInvalidArgument, "{} axes make no sense", rank);
  return {axes, axes + rank};
}

Tensor adopt(const hm_tensor& tensor) {
  // First of all, so that an Error below releases the memory too.
  auto buffer = std::make_shared<Buffer>(tensor.data, tensor.size, Device{},
                                         [release = tensor.release, owner = tensor.owner] {
                                           if (release != nullptr) release(owner);
                                         });
  Tensor made({shape_of(tensor.shape, tensor.rank), dtype_of(tensor.dtype)}, std::move(buffer));
  if (made.byte_size() != tensor.size) {
    fail(ErrorCode::kInvalidArgument, "a {} tensor of shape {} takes {} bytes, {} were given",
         dtype_name(made.dtype()), shape_text(made.shape()), made.byte_size(), tensor.size);
  }
  return made;
}

NamedTensors adopt(const hm_tensor* tensors, std::size_t count) {
  NamedTensors named;
  std::exception_ptr error;
  for (std::size_t i = 0; i < count; ++i) {
    try {
      Tensor tensor = adopt(tensors[i]);
      named[std::string(text_of(tensors[i].name, "name"))] = std::move(tensor);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
  return named;
}

}  // namespace harmonics::border

using namespace harmonics::border;
using harmonics::border::last_error;

hm_tensors::hm_tensors(harmonics::NamedTensors named) {
  for (auto& [name, tensor] : named) {
    names.push_back(name);
    tensors.push_back(tensor);
  }
}

extern "C" {

const char* hm_last_error(void) { return last_error.c_str(); }

const char* hm_version(void) { return HARMONICS_VERSION; }

void hm_free(void* memory) { std::free(memory); }

int hm_weights_digest(const hm_tensor* tensors, size_t count, char** digest) {
  return guarded([&] {
    object_of(digest, "digest") = copy_text(harmonics::weights_digest(adopt(tensors, count)));
  });
}

int hm_weights_save(const char* path, const hm_tensor* tensors, size_t count) {
  return guarded([&] {
    harmonics::Safetensors content;
    content.tensors = adopt(tensors, count);
    harmonics::write_safetensors(text_of(path, "path"), content);
  });
}

int hm_weights_load(const char* path, hm_tensors** out) {
  return guarded([&] {
    object_of(out, "out") =
        new hm_tensors(harmonics::read_safetensors(text_of(path, "path")).tensors);
  });
}

int hm_tensors_empty(const char* name, const char* dtype, const int64_t* shape, int32_t rank,
                     hm_tensors** out) {
  return guarded([&] {
    harmonics::NamedTensors made;
    made[std::string(text_of(name, "name"))] =
        harmonics::Tensor::empty(shape_of(shape, rank), dtype_of(dtype));
    object_of(out, "out") = new hm_tensors(std::move(made));
  });
}

size_t hm_tensors_count(const hm_tensors* tensors) {
  return tensors == nullptr ? 0 : tensors->tensors.size();
}

hm_tensor hm_tensors_at(const hm_tensors* tensors, size_t index) {
  if (index >= hm_tensors_count(tensors)) return {};
  const harmonics::Tensor& tensor = tensors->tensors[index];
  hm_tensor view = {};
  view.name = tensors->names[index].c_str();
  view.dtype = harmonics::dtype_name(tensor.dtype()).data();
  view.rank = static_cast<int32_t>(tensor.shape().size());
  view.shape = tensor.shape().data();
  view.data = const_cast<std::byte*>(tensor.bytes().data());
  view.size = tensor.byte_size();
  return view;
}

void hm_tensors_free(hm_tensors* tensors) { delete tensors; }

}  // extern "C"
