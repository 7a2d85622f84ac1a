# The tool runner: PyTorch and the libraries that agents' programs use, in the sandbox.
#   make sbom && docker build -f deploy/runner.Dockerfile -t m3builder/runner:0.1.0 .
# The base may be Debian or Ubuntu with Python 3.11 to 3.13. PyTorch brings its CUDA libraries itself, the driver comes
# from the node; a site whose policy wants NVIDIA's base names it:
#   --build-arg BASE=nvidia/cuda:13.0.2-base-ubuntu24.04
# For machines without GPUs, after `make lock` with M3_TORCH_INDEX (which writes that lock), an image of a third the size:
#   --build-arg LOCK=requirements/runner-cpu.lock --build-arg TORCH_INDEX=ADDRESS
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS system
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*

FROM system AS build
ARG LOCK=requirements/runner.lock
ARG TORCH_INDEX=
WORKDIR /app
COPY requirements/ requirements/
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/m3builder \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.lock
# Bytecode is taken without a look at its source's time, which builders round when they copy a stage.
ENV VIRTUAL_ENV=/opt/m3builder UV_NO_CACHE=1 PYC_INVALIDATION_MODE=UNCHECKED_HASH
# Sandboxed programs cannot write bytecode, and without it they spend longer on imports than on work.
RUN /opt/build/bin/uv pip install --compile-bytecode --require-hashes \
    ${TORCH_INDEX:+--index "$TORCH_INDEX" --index-strategy unsafe-best-match} -r "$LOCK"
COPY pyproject.toml README.md ./
COPY services services
COPY shared shared
COPY templates templates
RUN /opt/build/bin/python -m compileall -q --invalidation-mode unchecked-hash services shared \
 && PYTHONPATH="$(echo /opt/build/lib/python3*/site-packages)" /opt/build/bin/uv pip install --no-deps --no-build-isolation -e . \
 && rm /opt/m3builder/.lock

FROM system
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="m3builder runner" \
      org.opencontainers.image.description="Tool runner of M3Builder" \
      org.opencontainers.image.version="${VERSION}" \
      m3builder.sbom="/opt/m3builder/sbom.cdx.json"
COPY --from=build /opt/m3builder /opt/m3builder
COPY --from=build /app /app
COPY sbom.cdx.json /opt/m3builder/sbom.cdx.json
ENV PYTHONUNBUFFERED=1 M3_HOME=/var/lib/m3builder HOME=/var/lib/m3builder M3_HEALTH_PORT=8081
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/m3builder
USER 10001:10001
WORKDIR /var/lib/m3builder
HEALTHCHECK --interval=20s --timeout=5s --start-period=60s --retries=6 \
  CMD ["/opt/m3builder/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/healthz', timeout=4)"]
ENTRYPOINT ["/opt/m3builder/bin/python"]
CMD ["-m", "services.tool_runner"]
