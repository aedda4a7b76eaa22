#include "errors.h"

#include <string>

#include <nanobind/nanobind.h>

#include <harmonics/base/error.h>

namespace nb = nanobind;

namespace harmonics::python {
namespace {

void raise(const Error& error) {
  const nb::object made =
      nb::module_::import_("harmonics.errors")
          .attr("made")(std::string(error_code_name(error.code())).c_str(), error.what());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

}  // namespace

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace harmonics::python
