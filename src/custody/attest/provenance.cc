// From a chain to statements.
#include <harmonics/custody/provenance.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/custody/base64.h>

#include "provenance_form.h"

namespace harmonics::inline in_custody {
namespace {

Json digest_json(std::string_view algorithm, const Digest& digest) {
  return Json().set(algorithm, digest_text(digest));
}

Json resource(const std::string& name, std::string_view algorithm, const Digest& digest) {
  return Json().set("name", name).set("digest", digest_json(algorithm, digest));
}

Json subjects_json(const StageReport& stage, const ExportClaims& claims) {
  Json subjects = Json::array();
  for (const ModelFile& file : claims.files) {
    subjects.push(resource(file.name, "sha256", file.digest));
  }
  if (!stage.weights.empty()) {
    subjects.push(
        resource(format("weights of {} at step {}", stage.stage, stage.weights.back().step),
                 kWeightsDigest, stage.weights.back().root));
  }
  subjects.push(resource("graph of " + stage.stage, "sha256", stage.graph));
  return subjects;
}

// Who takes part and who sends to whom: the plan of the run.
Json plan_json(const VerifyReport& report) {
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) {
    stages.push(Json()
                    .set("stage", stage.stage)
                    .set("signer", stage.signer)
                    .set("key", key_text(stage.key))
                    .set("graph", digest_json("sha256", stage.graph)));
  }
  Json boundaries = Json::array();
  for (const BoundaryReport& row : report.boundaries) {
    boundaries.push(Json()
                        .set("name", row.boundary.name)
                        .set("from", row.boundary.from)
                        .set("to", row.boundary.to)
                        .set("activations", row.forward)
                        .set("gradients", row.backward));
  }
  return Json().set("stages", std::move(stages)).set("boundaries", std::move(boundaries));
}

Json dependencies_json(const StageReport& stage) {
  Json all = Json::array();
  all.push(resource("graph of " + stage.stage, "sha256", stage.graph));
  if (!stage.weights.empty()) {
    all.push(resource(format("weights of {} at step {}", stage.stage, stage.weights.front().step),
                      kWeightsDigest, stage.weights.front().root));
  }
  for (const DataReport& data : stage.data) {
    all.push(resource("data of " + data.producer, kDataDigest, data.root)
                 .set("annotations", Json().set("tensors", data.tensors)));
  }
  return all;
}

Json byproduct_json(const Bytes& chain) {
  return Json()
      .set("name", "chain of custody")
      .set("mediaType", kChainMediaType)
      .set("digest", digest_json("sha256", sha256(chain)))
      .set("content", to_base64(chain));
}

// The records of a stage and of the one that reads what leaves the graph there.
Bytes stage_chain(std::span<const Chain> chains, const std::string& stage) {
  const Opening& opening = chains.front().opening;
  Chain own{opening, {}};
  for (const Chain& chain : chains) {
    for (const ChainRecord& record : chain.records) {
      if (owner_of(opening, opening.stages[record.stage].stage) == stage) {
        own.records.push_back(record);
      }
    }
  }
  return encode_chain(own);
}

}  // namespace

std::string owner_of(const Opening& opening, const std::string& stage) {
  constexpr std::string_view kReader = "/output";
  if (!stage.ends_with(kReader)) return stage;
  const std::string owner = stage.substr(0, stage.size() - kReader.size());
  return opening.stage(owner) != nullptr ? owner : stage;
}

Json provenance_json(const VerifyReport& report, const StageReport& stage,
                     const ExportClaims& claims, const Bytes& chain) {
  Json account = Json()
                     .set("heads", stage.heads)
                     .set("sent", stage.sent)
                     .set("received", stage.received)
                     .set("weight_roots", stage.weight_marks);
  // Nothing stands where SLSA knows no field: strict readers take it too.
  Json internal = Json()
                      .set("plan", plan_json(report))
                      .set("account", std::move(account))
                      .set("exported_on", claims.host);
  Json external = Json().set("stage", stage.stage).set("graph", digest_json("sha256", stage.graph));
  Json definition = Json()
                        .set("buildType", kSecureRunType)
                        .set("externalParameters", std::move(external))
                        .set("internalParameters", std::move(internal))
                        .set("resolvedDependencies", dependencies_json(stage));
  Json builder =
      Json()
          .set("id", format("urn:harmonics:signer:{}:{}", stage.signer, key_text(stage.key)))
          .set("version", Json().set("harmonics", claims.version));
  Json metadata = Json().set("invocationId", digest_text(report.run));
  Json details = Json()
                     .set("builder", std::move(builder))
                     .set("metadata", std::move(metadata))
                     .set("byproducts", Json::array().push(byproduct_json(chain)));
  return Json()
      .set("_type", kInTotoStatement)
      .set("subject", subjects_json(stage, claims))
      .set("predicateType", kProvenanceType)
      .set("predicate", Json()
                            .set("buildDefinition", std::move(definition))
                            .set("runDetails", std::move(details)));
}

std::string export_statements(std::span<const Chain> chains, const VerifyReport& report,
                              const SigningKey& key, const ExportClaims& claims) {
  std::string text;
  for (const StageReport& stage : report.stages) {
    if (owner_of(chains.front().opening, stage.stage) != stage.stage) continue;
    const Bytes chain = stage_chain(chains, stage.stage);
    DsseEnvelope envelope{
        std::string(kInTotoPayload), provenance_json(report, stage, claims, chain).dump(), {}};
    const Signature signature =
        key.sign(dsse_signed_bytes(envelope.payload_type, envelope.payload));
    envelope.signatures.push_back(
        {key_text(key.public_key()), Bytes(signature.begin(), signature.end())});
    text += envelope_json(envelope).dump() + "\n";
    if (text.size() <= kMaxStatementsBytes) continue;
    fail(ErrorCode::kResourceExhausted,
         "the statements would be larger than {} bytes: pass the chain itself on",
         kMaxStatementsBytes);
  }
  return text;
}

Chain joined_chain(std::span<const Chain> chains) {
  Chain all{chains.front().opening, {}};
  for (const Chain& chain : chains) {
    all.records.insert(all.records.end(), chain.records.begin(), chain.records.end());
  }
  return all;
}

}  // namespace harmonics::inline in_custody
