#!/usr/bin/env bash
# Builds the MinIO server with which the store's tests run: deploy/minio.sh FOLDER. Wants Go; for tests, not for production:
# its makers publish no binaries any more and maintain it no longer.
set -euo pipefail
VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
mkdir -p "${1:?folder for the binary}"
GOBIN=$(realpath "$1") go install -ldflags="-s -w" "github.com/minio/minio@$VERSION"
echo "export M3_MINIO=$(realpath "$1")/minio"
