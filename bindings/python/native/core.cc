// harmonics._core: graphs, data and what learns, over the libtorch that it was built with.
#include "core.h"

#include <nanobind/nanobind.h>

#include "errors.h"

NB_MODULE(_core, module) {
  module.doc() = "The native half of harmonics: graphs, data and what learns.";
  // Threads of a run may let go of arrays while the interpreter ends; what is left then is no leak.
  nanobind::set_leak_warnings(false);
  harmonics::python::register_errors();
  harmonics::python::bind_graph(module);
  harmonics::python::bind_data(module);
  harmonics::python::bind_engine(module);
  harmonics::python::bind_plan(module);
  harmonics::python::bind_dispatch(module);
  module.attr("version") = HARMONICS_VERSION;
  module.attr("torch_version") = HARMONICS_TORCH_VERSION;
}
