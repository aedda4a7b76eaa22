"""Runs a test of this folder with the interpreter that has transformers: run_compared.py FILE."""

import os
import pathlib
import sys

import transformers_python

FOLDER = pathlib.Path(__file__).resolve().parent


def main():
    python = transformers_python.python()
    if python is None:
        return
    environment = dict(os.environ, PYTHONPATH=str(FOLDER), OMP_NUM_THREADS="1",
                       TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    os.execve(python, [str(python), sys.argv[1]], environment)


if __name__ == "__main__":
    main()
