#include <harmonics/programs/programs.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/subprocess.h>

namespace harmonics::inline in_programs {
namespace {

[[noreturn]] void fail_to_start(const SiblingProgram& program, int reason) {
  const std::string path = path_of(program).string();
  if (reason == ENOENT && program.build_option != nullptr) {
    fail(program.missing,
         "this command needs '{}', which is not there: build with {}=ON (and {} installed), or "
         "install it beside this program",
         path, program.build_option, program.library);
  }
  fail_errno(reason, format("cannot start '{}'", path));
}

ProgramStart start_of(const SiblingProgram& program, const std::vector<std::string>& words) {
  const std::filesystem::path path = path_of(program);
  std::vector<std::string> all = {path.string()};
  all.insert(all.end(), words.begin(), words.end());
  return {path, std::move(all)};
}

pid_t start(const SiblingProgram& program, const ProgramStart& how) {
  const ProgramStart::Started started = how.try_start();
  if (started.failure != 0) fail_to_start(program, started.failure);
  return started.pid;
}

std::optional<int> exit_code_of(pid_t child) {
  const int status = wait_for_program(child);
  if (!WIFEXITED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

/// All, or somewhat more than `max_bytes` of it.
std::string read_output(int descriptor, std::size_t max_bytes) {
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() <= max_bytes) {
    const ssize_t got = ::read(descriptor, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

std::filesystem::path program_folder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail_errno(error.value(), "cannot find the folder of this program (/proc/self/exe)");
  return self.parent_path();
}

std::filesystem::path path_of(const SiblingProgram& program) {
  return program_folder() / program.name;
}

void become_program(const SiblingProgram& program, char** argv) {
  const std::string path = path_of(program).string();
  ::execv(path.c_str(), argv);
  fail_to_start(program, errno);
}

void become_program(const SiblingProgram& program, const std::vector<std::string>& words) {
  const std::string path = path_of(program).string();
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  become_program(program, argv.data());
}

std::optional<int> run_program(const SiblingProgram& program, const std::vector<std::string>& words,
                               const std::filesystem::path& file) {
  return exit_code_of(start(program, start_of(program, words).write_to(STDOUT_FILENO, file)));
}

std::optional<std::string> ask_program(const SiblingProgram& program,
                                       const std::vector<std::string>& words,
                                       std::size_t max_bytes) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "cannot make a pipe");
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  const pid_t child = start(program, start_of(program, words).place(theirs.get(), STDOUT_FILENO));
  theirs.reset();
  std::string answer = read_output(ours.get(), max_bytes);
  ours.reset();  // so that one that prints on and on ends
  if (exit_code_of(child) != 0 || answer.size() > max_bytes) return std::nullopt;
  return answer;
}

}  // namespace harmonics::inline in_programs
