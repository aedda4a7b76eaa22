// harmonics._cluster: the cluster's client. Every call lets go of the GIL and can be interrupted.
#include <atomic>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>

#include "cluster_connection.h"
#include "errors.h"

namespace nb = nanobind;

namespace harmonics::python {
namespace {

/// Ends the calls of a thread that watches it.
struct Interrupt {
  std::atomic<bool> raised = false;
};
thread_local std::shared_ptr<Interrupt> watched;

/// Asked many times a second by calls that wait. A signal's handler runs here; what it raises stays
/// set.
bool interrupted() {
  if (watched && watched->raised) return true;
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

/// What a signal's handler raised goes on, in place of whatever the call came to.
void raise_pending() {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

/// `work` without the GIL.
template <typename Work>
auto waiting(Work work) -> decltype(work()) {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      {
        const nb::gil_scoped_release free;
        work();
      }
      raise_pending();
    } else {
      auto result = [&] {
        const nb::gil_scoped_release free;
        return work();
      }();
      raise_pending();
      return result;
    }
  } catch (const Error&) {
    raise_pending();
    throw;
  }
}

using FileTuple = std::tuple<std::string, nb::bytes, bool>;
/// Flags, command, files, idempotency key.
using TaskTuple = std::tuple<Flags, std::vector<std::string>, std::vector<FileTuple>, std::string>;
using SubmittedTuple = std::tuple<std::uint64_t, std::uint32_t, bool, std::string>;

TaskToSubmit submission_of(const TaskTuple& from) {
  const auto& [flags, command, files, key] = from;
  TaskToSubmit to{flags, command, {}, key};
  for (const auto& [path, data, executable] : files) {
    to.files.push_back({path, std::string(data.c_str(), data.size()), executable});
  }
  return to;
}

SubmittedTuple tuple_of(const Submitted& from) {
  return {from.first.value, from.count, from.already, from.advice};
}

std::shared_ptr<ClusterConnection> connect(const Flags& flags, nb::callable say) {
  ClientPatience wait;
  wait.interrupted = interrupted;
  // The function is let go of with the GIL held, whoever drops the connection.
  const std::shared_ptr<nb::callable> listener(new nb::callable(std::move(say)),
                                               [](nb::callable* gone) {
                                                 const nb::gil_scoped_acquire gil;
                                                 delete gone;
                                               });
  wait.say = [listener](const std::string& line) {
    const nb::gil_scoped_acquire gil;
    (*listener)(line);
  };
  return waiting([&] { return std::make_shared<ClusterConnection>(flags, wait); });
}

nb::list submit_all(ClusterConnection& connection, const std::vector<TaskTuple>& given) {
  std::vector<TaskToSubmit> submissions;
  for (const TaskTuple& one : given) submissions.push_back(submission_of(one));
  const auto outcomes = waiting([&] { return connection.submit_all(submissions); });
  nb::list list;
  const nb::object made = nb::module_::import_("harmonics.errors").attr("made");
  for (const SubmitOutcome& one : outcomes) {
    if (one.error) {
      list.append(made(std::string(error_code_name(one.error->code())), one.error->what()));
    } else {
      list.append(nb::cast(tuple_of(one.submitted)));
    }
  }
  return list;
}

nb::object next_piece(OutputStream& stream) {
  const auto piece = waiting([&] { return stream.next(); });
  if (!piece) return nb::none();
  return nb::make_tuple(piece->offset, nb::bytes(piece->data.data(), piece->data.size()));
}

void bind_listing(nb::class_<ClusterConnection>& type) {
  type.def("task", [](ClusterConnection& self,
                      std::uint64_t task) { return waiting([&] { return self.task({task}); }); })
      .def("tasks", [](ClusterConnection& self,
                       const Flags& flags) { return waiting([&] { return self.tasks(flags); }); })
      .def("page",
           [](ClusterConnection& self, std::uint64_t from, const std::vector<std::string>& states) {
             return waiting([&] { return self.page({from}, states); });
           })
      .def("ended",
           [](ClusterConnection& self, std::uint64_t from, std::uint64_t last) {
             return waiting([&] { return self.ended({from}, {last}); });
           })
      .def("workers",
           [](ClusterConnection& self) { return waiting([&] { return self.workers(); }); })
      .def("status", [](ClusterConnection& self) { return waiting([&] { return self.status(); }); })
      .def("why", [](ClusterConnection& self, std::uint64_t task) {
        const WhyPending why = waiting([&] { return self.why({task}); });
        return std::tuple(std::string(to_string(why.reason)), why.text, why.before);
      });
}

void bind_files(nb::class_<ClusterConnection>& type) {
  type.def(
          "logs",
          [](ClusterConnection& self, const Flags& flags) {
            return waiting([&] { return self.logs(flags); });
          },
          nb::keep_alive<0, 1>())
      .def("artifacts",
           [](ClusterConnection& self, const Flags& flags) {
             const auto found = waiting([&] { return self.artifacts(flags); });
             std::vector<std::pair<std::string, std::uint64_t>> list;
             for (const ArtifactView& one : found) list.emplace_back(one.path, one.bytes);
             return list;
           })
      .def("artifact", [](ClusterConnection& self, std::uint64_t task, const std::string& path) {
        const std::string data = waiting([&] { return self.artifact({task}, path); });
        return nb::bytes(data.data(), data.size());
      });
}

}  // namespace
}  // namespace harmonics::python

NB_MODULE(_cluster, module) {
  using namespace harmonics;
  using namespace harmonics::python;
  module.doc() = "The native half of harmonics.Client.";
  register_errors();

  nb::class_<Interrupt>(module, "Interrupt").def(nb::init<>()).def("set", [](Interrupt& self) {
    self.raised = true;
  });
  module.def(
      "watch", [](std::shared_ptr<Interrupt> interrupt) { watched = std::move(interrupt); },
      nb::arg("interrupt").none());

  nb::class_<OutputStream>(module, "OutputStream").def("next", next_piece);

  nb::class_<ClusterConnection> connection(module, "Connection");
  connection
      .def("submit",
           [](ClusterConnection& self, const TaskTuple& given) {
             const TaskToSubmit submission = submission_of(given);
             return tuple_of(waiting([&] { return self.submit(submission); }));
           })
      .def("submit_all", submit_all)
      .def("cancel", [](ClusterConnection& self,
                        std::uint64_t task) { waiting([&] { self.cancel({task}); }); })
      .def("wait",
           [](ClusterConnection& self, const std::vector<std::int64_t>& tasks, double timeout) {
             const WaitResult all = waiting([&] { return self.wait(tasks, timeout); });
             return std::tuple(all.ended, all.succeeded, all.failed, all.cancelled,
                               all.dependency_failed, all.unfinished);
           });
  bind_listing(connection);
  bind_files(connection);
  module.def("connect", connect);
  module.def("check", &check_words);
}
