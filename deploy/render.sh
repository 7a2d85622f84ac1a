#!/usr/bin/env bash
# Render the chart with one of its examples, as a cluster that has KEDA and the Gateway API would: render.sh NAME [HELM FLAG...]
set -euo pipefail
chart=$(dirname "$0")/../helm/m3builder
exec "${M3_HELM:-helm}" template m3builder "$chart" --namespace m3builder --kube-version 1.33.0 \
  --api-versions keda.sh/v1alpha1 --api-versions gateway.networking.k8s.io/v1 \
  --values "$chart/examples/$1.yaml" "${@:2}"
