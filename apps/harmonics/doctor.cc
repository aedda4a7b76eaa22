// harmonics doctor: what this build and this machine can do.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/programs/programs.h>

#include "optional_parts.h"
#include "subcommands.h"
#include "torch_program.h"

namespace harmonics::inline in_front {
namespace {

struct Part {
  std::string name;
  bool built = false;
  std::string note;
};

struct Findings {
  std::vector<Part> parts;
  std::vector<std::string> simd;
  unsigned processors = 0;
  /// What harmonics-torch says about libtorch; nothing when it could not be asked.
  std::optional<Json> torch;
};

std::vector<std::string> find_simd() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) found.push_back("sse4.2");
  if (__builtin_cpu_supports("avx")) found.push_back("avx");
  if (__builtin_cpu_supports("avx2")) found.push_back("avx2");
  if (__builtin_cpu_supports("fma")) found.push_back("fma");
  if (__builtin_cpu_supports("avx512f")) found.push_back("avx512f");
#elif defined(__aarch64__)
  found.push_back("neon");
#endif
  return found;
}

// What holds a part, besides this program: files beside it, in a build folder or an installation.
// Nothing: the part is in here.
std::vector<std::filesystem::path> places_of(std::string_view part) {
  const std::filesystem::path own = program_folder();
  if (part == "grpc" || part == "store") return {path_of(kClusterProgram)};
  if (part == "arrow" || part == "flight" || part == "images" || part == "opencl") {
    return {path_of(kTorchProgram)};
  }
  if (part == "python") {
    const std::filesystem::path module =
        std::filesystem::path("harmonics") / HARMONICS_PYTHON_MODULE;
    const std::filesystem::path libraries = own.parent_path() / HARMONICS_LIBRARY_FOLDER;
    return {own / "python" / module, libraries / "python3" / "dist-packages" / module,
            own.parent_path() / "lib" / HARMONICS_PYTHON_FOLDER / "site-packages" / module};
  }
  const std::string library = part == "jvm"   ? "libharmonics_jni.so"
                              : part == "mpi" ? "libharmonics_dispatch_mpi.a"
                                              : "";
  if (library.empty()) return {};
  return {own / library, own / "src" / "dispatch" / "mpi" / library,
          own.parent_path() / "lib" / library,
          own.parent_path() / HARMONICS_LIBRARY_FOLDER / library};
}

// A part for which there were libraries may still not have been built.
Part part_of(const OptionalPart& known) {
  const std::vector<std::filesystem::path> places = places_of(known.name);
  const bool there =
      places.empty() || std::ranges::any_of(places, [](const std::filesystem::path& place) {
        std::error_code error;
        return std::filesystem::exists(place, error);
      });
  if (!known.built || there) return {known.name, known.built, known.note};
  return {known.name, false,
          format("left out of this build, though its libraries are there: no '{}'",
                 places.front().string())};
}

std::string torch_note(const Json& torch) {
  const std::int64_t gpus = torch.at("cuda_devices").as_integer();
  return format("libtorch {}, {}", torch.at("version").as_string(),
                gpus == 0 ? std::string("no CUDA device") : format("{} CUDA device(s)", gpus));
}

// What `generate` and `serve` compute with on a GPU; `torch` is what libtorch knows of this
// machine.
Part text_gpu_part(const std::optional<Json>& torch) {
  Part part{"text-gpu", torch && std::filesystem::exists(path_of(kTextTorchProgram)), {}};
  if (!part.built) {
    part.note =
        "left out: no 'harmonics-text-torch' beside this program that starts; "
        "generate and serve compute on the CPU";
  } else if (torch->at("cuda_devices").as_integer() == 0) {
    part.note = "no CUDA device: generate and serve compute on the CPU";
  } else {
    part.note = "generate and serve compute on a GPU with --backend gpu or auto";
  }
  return part;
}

Findings examine() {
  Findings findings;
  findings.simd = find_simd();
  findings.processors = std::thread::hardware_concurrency();
  Part torch{"torch", HARMONICS_HAS_TORCH != 0, {}};
  if (!torch.built) {
    torch.note = "left out when this was built (HARMONICS_WITH_TORCH): no train, no run";
  } else {
    try {
      findings.torch = Json::parse(ask_torch_program("--probe"), "answer of harmonics-torch");
      torch.note = torch_note(*findings.torch);
    } catch (const Error& error) {
      torch.built = false;
      torch.note = error.what();
    }
  }
  const bool answered = torch.built;
  findings.parts.push_back(std::move(torch));
  findings.parts.push_back(text_gpu_part(answered ? findings.torch : std::nullopt));
  for (const OptionalPart& part : optional_parts()) {
    findings.parts.push_back(part_of(part));
  }
  return findings;
}

std::string table_text(const Findings& findings, bool colour) {
  std::string text = bold("harmonics " HARMONICS_VERSION, colour) + "\n";
  text += format("compiler    {}\n", HARMONICS_COMPILER);
  text += format("build type  {}\n", HARMONICS_BUILD_TYPE);
  text += format("processors  {}\n", findings.processors);
  text += format("SIMD        {}\n\n",
                 findings.simd.empty() ? "none known" : joined(findings.simd, " "));
  Table table{{{"part"}, {"built"}, {"note"}}, {}};
  for (const Part& part : findings.parts) {
    table.rows.push_back({part.name, part.built ? "yes" : "no", part.note});
  }
  return text + table.text(colour);
}

Json findings_json(const Findings& findings) {
  Json parts = Json::array();
  for (const Part& part : findings.parts) {
    parts.push(Json().set("name", part.name).set("built", part.built).set("note", part.note));
  }
  Json simd = Json::array();
  for (const std::string& name : findings.simd) simd.push(name);
  Json json;
  json.set("version", HARMONICS_VERSION).set("compiler", HARMONICS_COMPILER);
  json.set("build_type", HARMONICS_BUILD_TYPE);
  json.set("processors", static_cast<std::int64_t>(findings.processors));
  json.set("simd", std::move(simd)).set("parts", std::move(parts));
  json.set("torch", findings.torch.value_or(Json()));
  return json;
}

}  // namespace

int doctor(const DoctorCommand& command) {
  const Findings findings = examine();
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, table_text(findings, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, findings_json(findings).dump(2) + "\n");
      break;
    case OutputStyle::kQuiet: {
      std::string names;
      for (const Part& part : findings.parts) names += part.built ? part.name + "\n" : "";
      write_text(TextStream::kOutput, names);
      break;
    }
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
