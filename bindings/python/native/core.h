// The parts of the extension harmonics._core, one function each.
#pragma once

#include <nanobind/nanobind.h>

namespace harmonics::python {

void bind_graph(nanobind::module_& module);
void bind_data(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_dispatch(nanobind::module_& module);

}  // namespace harmonics::python
