"""Runs a test of this folder with transformers on the system's torch (Debian: python3-torch): run_compared.py FILE."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import packages

FOLDER = pathlib.Path(__file__).resolve().parent


def main():
    python = packages.interpreter("transformers", ["transformers==4.44.2", "numpy<2", "safetensors", "gguf"],
                                  "torch, transformers, safetensors, gguf", on_system=True)
    if python is None:
        return
    environment = dict(os.environ, PYTHONPATH=f"{FOLDER}:{FOLDER.parent}", OMP_NUM_THREADS="1",
                       TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    os.execve(python, [str(python), sys.argv[1]], environment)


if __name__ == "__main__":
    main()
