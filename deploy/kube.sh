#!/usr/bin/env bash
# Builds what `python -m bench.kube` starts: a Kubernetes control plane, etcd, simulated nodes (kwok) and helm, and puts
# the definitions of KEDA and of the Gateway API beside them: deploy/kube.sh FOLDER. Wants Go; half an hour on two cores.
set -euo pipefail
KUBERNETES=37.2 # v1.37.2 of kubernetes itself, v0.37.2 of its parts
mkdir -p "${1:?folder for the binaries}"/{crd,stages}
folder=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOFLAGS=-mod=mod

field() { go mod download -json "$2" | sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p"; }
programs=(go.etcd.io/etcd/server/v3 sigs.k8s.io/kwok/cmd/kwok helm.sh/helm/v3/cmd/helm
  k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,scheduler})
versions=(@v3.7.3 @v0.8.0 @v3.22.0 @v1.$KUBERNETES @v1.$KUBERNETES @v1.$KUBERNETES)

go mod init m3builder.local/kube 2>/dev/null
for part in $(sed -n 's|^\t\(k8s.io/.*\) => ./staging/.*|\1|p' "$(field GoMod "k8s.io/kubernetes@v1.$KUBERNETES")"); do
  go mod edit "-replace=$part=$part@v0.$KUBERNETES"
done
wanted=()
for number in "${!programs[@]}"; do wanted+=("${programs[number]}${versions[number]}"); done
go get "${wanted[@]}"

version=k8s.io/component-base/version
for program in "${programs[@]}"; do
  name=${program##*/}
  go build -o "$folder/${name/v3/etcd}" -ldflags \
    "-s -w -X $version.gitMajor=1 -X $version.gitMinor=${KUBERNETES%.*} -X $version.gitVersion=v1.$KUBERNETES" "$program"
done
stages=$(field Dir sigs.k8s.io/kwok@v0.8.0)/kustomize/stage
install -m 644 "$stages"/{node/fast/node-,node/heartbeat-with-lease/node-,pod/fast/pod-}*.yaml "$folder/stages/"
install -m 644 "$(field Dir github.com/kedacore/keda/v2@v2.21.0)"/config/crd/bases/keda.sh_scaled*.yaml \
  "$(field Dir sigs.k8s.io/gateway-api@v1.6.3)"/config/crd/standard/*_{gateways,httproutes}.yaml "$folder/crd/"
echo "python -m bench.kube --bin $folder"
