#!/usr/bin/env bash
# Print the passwords that the compose files want: deploy/compose_env.sh > deploy/.env && chmod 600 deploy/.env
set -euo pipefail
umask 077
secret() { printf 'm%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; } # NATS wants a letter first
for user in operator gateway task_manager data_engineer module_architect model_trainer scorer tool_runner; do
  echo "M3_PASSWORD_$user=$(secret)"
done
for name in M3_S3_SECRET_KEY M3_S3_SECRET_KEY_{GATEWAY,SCORER,TOOL_RUNNER} M3_GATEWAY_TOKEN M3_GRAFANA_PASSWORD; do
  echo "$name=$(secret)"
done
