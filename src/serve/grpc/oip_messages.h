// Messages of the protocol's gRPC form to and from requests and answers (private to serve).
#pragma once

#include <open_inference.grpc.pb.h>

#include <harmonics/serve/model_card.h>

namespace harmonics::inline in_serve {

/// What is broken, or does not say a tensor in full, is an Error (kInvalidArgument).
[[nodiscard]] InferenceRequest request_of(const inference::ModelInferRequest& message);

/// Outputs go as bytes, those that were asked for in their order (none: all).
void fill_answer(const ModelCard& card, const InferenceRequest& request,
                 const TensorsByName& outputs, inference::ModelInferResponse& message);

void fill_metadata(const ModelCard& card, inference::ModelMetadataResponse& message);

}  // namespace harmonics::inline in_serve
