#include <harmonics/programs/programs.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <harmonics/base/descriptor.h>

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

/// Points into both arguments.
std::vector<char*> arguments(std::string& path, const std::vector<std::string>& words) {
  std::vector<char*> argv = {path.data()};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

/// Destroys the actions.
pid_t start(const SiblingProgram& program, const std::vector<std::string>& words,
            posix_spawn_file_actions_t& actions) {
  std::string path = path_of(program).string();
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, path.c_str(), &actions, nullptr,
                                    arguments(path, words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) fail_to_start(program, failure);
  return child;
}

std::optional<int> wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
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
  std::string path = path_of(program).string();
  become_program(program, arguments(path, words).data());
}

std::optional<int> run_program(const SiblingProgram& program, const std::vector<std::string>& words,
                               const std::filesystem::path& file) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, file.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
  return wait_for(start(program, words, actions));
}

std::optional<std::string> ask_program(const SiblingProgram& program,
                                       const std::vector<std::string>& words,
                                       std::size_t max_bytes) {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) fail_errno(errno, "cannot make a pipe");
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, ours.get());
  ::posix_spawn_file_actions_addclose(&actions, theirs.get());
  const pid_t child = start(program, words, actions);
  theirs.reset();
  std::string answer = read_output(ours.get(), max_bytes);
  ours.reset();  // so that one that prints on and on ends
  if (wait_for(child) != 0 || answer.size() > max_bytes) return std::nullopt;
  return answer;
}

}  // namespace harmonics::inline in_programs
