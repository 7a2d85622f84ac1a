#!/usr/bin/env bash
# Build, from their Go modules, the programs with which `make cluster-test` tries the chart on a real API server:
# deploy/kubernetes.sh FOLDER. Takes go, some 5 GB of disk and the better part of an hour of two cores.
set -euo pipefail
folder=$(mkdir -p "${1:?name a folder for the programs}" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOBIN=$folder

# What replaces modules in its go.mod cannot be installed by name, so it is built as part of a module of ours.
built() { # NAME PACKAGE VERSION [REPLACE...]
  local name=$1 package=$2 version=$3
  shift 3
  mkdir -p "$work/$name" && cd "$work/$name"
  printf 'module build\n\ngo 1.26.0\n\nrequire %s\n' "$version" > go.mod
  for line in "$@"; do echo "replace $line" >> go.mod; done
  go build -mod=mod -o "$folder/$name" "$package"
}

kubernetes=v1.37.2
staged=$(go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
mapfile -t replaced < <(grep -oE '^\s+k8s\.io/[a-z0-9-]+ v0\.0\.0( |$)' "$staged" | awk -v v="v0${kubernetes#v1}" '{print $1 " => " $1 " " v}')
for program in kube-apiserver kube-controller-manager kube-scheduler; do
  built "$program" "k8s.io/kubernetes/cmd/$program" "k8s.io/kubernetes $kubernetes" "${replaced[@]}"
done
built etcd go.etcd.io/etcd/server/v3 "go.etcd.io/etcd/server/v3 v3.6.5"
go install sigs.k8s.io/kwok/cmd/kwok@v0.8.0
go install helm.sh/helm/v3/cmd/helm@v3.22.0
go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
