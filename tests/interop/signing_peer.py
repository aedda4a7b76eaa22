"""What the packages of others say about files of ours, one JSON answer per line of questions.

model_signing (OpenSSF), in-toto, in-toto-attestation and securesystemslib; started by signing_test.py in its own
environment."""

import json
import pathlib
import sys

import google.protobuf.json_format
import in_toto.models.metadata
import in_toto_attestation.predicates.provenance.v1.provenance_pb2 as provenance_pb2
import in_toto_attestation.v1.statement as statement
import in_toto_attestation.v1.statement_pb2 as statement_pb2
import model_signing.signing
import model_signing.verifying
import securesystemslib.dsse
import securesystemslib.signer


def verify_model(model, signature, key):
    model_signing.verifying.Config().use_elliptic_key_verifier(public_key=key).verify(
        pathlib.Path(model), pathlib.Path(signature))


def sign_model(model, signature, key):
    config = model_signing.signing.Config().use_elliptic_key_signer(private_key=pathlib.Path(key))
    config.sign(pathlib.Path(model), pathlib.Path(signature))


def verify_line(line, key):
    """in-toto takes the envelope, its signature holds, and what is in it is provenance of SLSA."""
    envelope = in_toto.models.metadata.Metadata.from_dict(json.loads(line))
    envelope.verify_signature({'keyid': key, 'keytype': 'ed25519', 'scheme': 'ed25519', 'keyval': {'public': key}})
    message = google.protobuf.json_format.Parse(envelope.payload.decode(), statement_pb2.Statement())
    statement.Statement.copy_from_pb(message).validate()
    predicate = google.protobuf.json_format.MessageToDict(message.predicate)
    provenance = google.protobuf.json_format.ParseDict(predicate, provenance_pb2.Provenance())
    return {'type': message.predicate_type, 'build': provenance.build_definition.build_type,
            'builder': provenance.run_details.builder.id,
            'subjects': [one.name for one in message.subject],
            'made_from': [one.name for one in provenance.build_definition.resolved_dependencies]}


def sign_statement(payload):
    """A statement of their making, signed with a new Ed25519 key; gives the envelope and the key."""
    signer = securesystemslib.signer.CryptoSigner.generate_ed25519()
    envelope = securesystemslib.dsse.Envelope(payload.encode(), 'application/vnd.in-toto+json', {})
    envelope.sign(signer)
    return {'envelope': json.dumps(envelope.to_dict()), 'key': signer.public_key.keyval['public']}


def main():
    for line in sys.stdin:
        question, *arguments = json.loads(line)
        try:
            answer = {'good': True, 'value': globals()[question](*arguments)}
        except Exception as error:  # whatever they throw is their way to refuse
            answer = {'good': False, 'value': f'{type(error).__name__}: {error}'}
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
