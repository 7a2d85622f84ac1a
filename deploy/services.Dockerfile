# Gateway, agents and the provisioner; with another lock the scorer, which computes: no PyTorch, nothing that runs what a
# core writes.
#   make sbom
#   docker build -f deploy/services.Dockerfile -t m3builder/services:0.1.0 .
#   docker build -f deploy/services.Dockerfile --build-arg LOCK=requirements/score.lock -t m3builder/scorer:0.1.0 .
# For a release name the base by its digest: --build-arg BASE=python:3.12-slim-bookworm@sha256:...
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
ARG LOCK=requirements/core.lock
WORKDIR /app
COPY requirements/ requirements/
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/m3builder \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.lock
# Bytecode is taken without a look at its source's time, which builders round when they copy a stage.
ENV VIRTUAL_ENV=/opt/m3builder UV_NO_CACHE=1 PYC_INVALIDATION_MODE=UNCHECKED_HASH
RUN /opt/build/bin/uv pip install --compile-bytecode --require-hashes -r "$LOCK"
COPY pyproject.toml README.md ./
COPY services services
COPY shared shared
RUN /opt/build/bin/python -m compileall -q --invalidation-mode unchecked-hash services shared \
 && PYTHONPATH="$(echo /opt/build/lib/python3*/site-packages)" /opt/build/bin/uv pip install --no-deps --no-build-isolation -e . \
 && rm /opt/m3builder/.lock

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="m3builder services" \
      org.opencontainers.image.description="Gateway, agents and, with their lock, scorer of M3Builder" \
      org.opencontainers.image.version="${VERSION}" \
      m3builder.sbom="/opt/m3builder/sbom.cdx.json"
COPY --from=build /opt/m3builder /opt/m3builder
COPY --from=build /app /app
COPY sbom.cdx.json /opt/m3builder/sbom.cdx.json
ENV PYTHONUNBUFFERED=1 M3_HOME=/var/lib/m3builder HOME=/var/lib/m3builder M3_HEALTH_PORT=8081
# An empty volume that is mounted there belongs to the user then.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/m3builder
USER 10001:10001
WORKDIR /var/lib/m3builder
HEALTHCHECK --interval=20s --timeout=5s --start-period=60s --retries=6 \
  CMD ["/opt/m3builder/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/healthz', timeout=4)"]
ENTRYPOINT ["/opt/m3builder/bin/python"]
CMD ["-m", "services.gateway"]
