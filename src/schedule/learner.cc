#include <harmonics/schedule/learner.h>

#include <utility>

#include <harmonics/schedule/secure_run.h>

namespace harmonics::inline in_schedule {
StepReport Learner::step() {
  return guarded([](Trainer& trainer) { return trainer.step(); });
}

FitReport Learner::fit(std::int64_t epochs, const FitOptions& options) {
  return guarded([&](Trainer& trainer) { return trainer.fit(epochs, options); });
}

Evaluation Learner::evaluate(const NamedProducers& producers) {
  return guarded([&](Trainer& trainer) { return trainer.evaluate(producers); });
}

NamedTensors Learner::infer(const NamedTensors& inputs) {
  return guarded([&](Trainer& trainer) { return std::move(trainer.infer({&inputs, 1}).front()); });
}

StreamReport Learner::stream(const NamedProducers& producers, const NamedConsumers& consumers,
                             const StreamOptions& options) {
  return guarded([&](Trainer& trainer) { return trainer.stream(producers, consumers, options); });
}

void Learner::save_checkpoint(const std::filesystem::path& path) const { trainer().save(path); }
void Learner::load_checkpoint(const std::filesystem::path& path) { trainer().load(path); }

bool Learner::resume(const std::filesystem::path& path) {
  if (path.empty() || !std::filesystem::exists(path)) return false;
  load_checkpoint(path);
  return true;
}

void Learner::load_weights(const std::filesystem::path& path,
                           const std::map<std::string, std::string>& names) {
  harmonics::load_weights(path, trainer().row(), names);
}

void Learner::close() {
  StageRow& row = trainer().row();
  if (row.custody() == nullptr) return;
  row.custody()->close(row.stages(), static_cast<std::uint64_t>(row.state().steps));
}

NamedTensors Learner::parameters() const { return trainer().row().parameters(); }
std::string Learner::weights_digest() const { return harmonics::weights_digest(parameters()); }
const TrainingProgress& Learner::progress() const { return trainer().progress(); }

}  // namespace harmonics::inline in_schedule
