# CPU image: docker build -t gpt-oss-server .
# GPU image: docker build -t gpt-oss-server:gpu --build-arg DEVICE=gpu .
# GPU image with vLLM: docker build -t gpt-oss-server:vllm --build-arg DEVICE=vllm .
ARG DEVICE=cpu

FROM python:3.11-slim-bookworm AS cpu
# torch's CPU build is some 3 GB smaller than that of the default index.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu EXTRAS="[python-tools,mcp]" PINS=constraints.txt

FROM python:3.11-slim-bookworm AS gpu
# The default index has torch for CUDA; triton compiles its launchers with gcc at run time.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
ENV EXTRAS="[gpu,python-tools,mcp]" PINS=constraints.txt KERNELS_CACHE=/opt/kernels \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM vllm/vllm-openai:v0.32.0 AS vllm
# vLLM's packages keep their versions: what the project needs beside them has to fit.
# setuptools is not pinned: pip would constrain what it builds with, too.
RUN python3 -m pip list --format=freeze --exclude pip --exclude setuptools > /pins.txt
ENV EXTRAS="[vllm,python-tools,mcp]" PINS=/pins.txt HF_HOME=/cache/huggingface

# hadolint ignore=DL3006
FROM ${DEVICE}
RUN useradd --create-home --uid 10001 server \
    && install --directory --owner=server --group=server /cache \
    && install --directory --owner=server --group=server --mode=700 /data /files
WORKDIR /src
# Dependencies first: a change to the sources alone does not install them again.
COPY pyproject.toml constraints.txt README.md LICENSE ./
# pyproject.toml names these files: the build fails without them.
COPY harmony/data/LICENSE* harmony/data/
# hadolint ignore=DL3013
RUN PIP_CONSTRAINT=${PINS} python3 -m pip install --no-cache-dir ".${EXTRAS}"
COPY harmony harmony
COPY adapters adapters
COPY server server
COPY demo demo
COPY docs docs
RUN PIP_CONSTRAINT=${PINS} python3 -m pip install --no-cache-dir --no-deps --force-reinstall .
# The GPU image contains the compiled kernels: a start needs no hub, and their version stays.
RUN if [ -n "${KERNELS_CACHE}" ]; then \
    python3 -m adapters.local.model.kernels && chown --recursive server:server "${KERNELS_CACHE}"; fi

# /cache has checkpoints, compiled kernels and all that libraries write below the home folder. /data has
# what clients store, and the key that seals reasoning. /files is for gateways that share uploaded files in
# a volume; it is not declared as one, because other servers keep files in /data.
# The server listens on all addresses, so it needs a key (or GPT_OSS_ALLOW_ANONYMOUS=true).
ENV GPT_OSS_HOST=0.0.0.0 GPT_OSS_PORT=8000 HOME=/cache XDG_CACHE_HOME=/cache XDG_DATA_HOME=/data \
    TRITON_HOME=/cache FLASHINFER_WORKSPACE_BASE=/cache VLLM_CACHE_ROOT=/cache/vllm \
    CUDA_CACHE_PATH=/cache/nv TORCHINDUCTOR_CACHE_DIR=/cache/torchinductor PYTHONUNBUFFERED=1
VOLUME /cache /data
WORKDIR /home/server
USER 10001
EXPOSE 8000
# A checkpoint of 65 GB takes six hours at 3 MB/s. A check that succeeds ends the start period.
# http.client uses no proxy, although Docker's configuration of a client may give each container one.
# The port is that of the command, which may be `serve --port 80`, else that of the environment.
HEALTHCHECK --start-period=6h --interval=30s --timeout=10s CMD [ \
    "python3", "-c", "import http.client, os; \
    words = open('/proc/1/cmdline').read().replace('=', chr(0)).split(chr(0)); \
    given = words[words.index('--port') + 1] if '--port' in words else os.environ.get('GPT_OSS_PORT'); \
    server = http.client.HTTPConnection('127.0.0.1', int(given or 8000)); \
    server.request('GET', '/health'); \
    exit(server.getresponse().status != 200)" ]
ENTRYPOINT ["gpt-oss-server"]
CMD ["serve"]
