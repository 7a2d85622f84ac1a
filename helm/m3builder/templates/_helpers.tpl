{{- define "m3.name" -}}
{{- default (ternary .Release.Name (printf "%s-m3builder" .Release.Name) (contains "m3builder" .Release.Name)) .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "m3.selector" -}}
app.kubernetes.io/name: m3builder
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "m3.labels" -}}
{{ include "m3.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The image of (dict "root" $ "image" .Values.image.services). */}}
{{- define "m3.image" -}}
{{- $registry := .root.Values.image.registry -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .root.Chart.AppVersion .image.tag }}{{ end }}
{{- end }}

{{- /* A service's values over the defaults, with what follows from its name, as JSON: (dict "root" $ "name" "scorer"). */}}
{{- define "m3.service" -}}
{{- $own := mustMergeOverwrite (deepCopy .root.Values.defaults) (deepCopy (get .root.Values.services .name)) -}}
{{- $runner := hasPrefix "runner-" .name -}}
{{- $agent := not (or $runner (has .name (list "gateway" "scorer"))) -}}
{{- $_ := set $own "name" .name -}}
{{- $_ := set $own "class" (ternary (trimPrefix "runner-" .name) "" $runner) -}}
{{- $_ := set $own "user" (ternary "tool_runner" (replace "-" "_" .name) $runner) -}}
{{- $_ := set $own "image" (ternary "runner" (ternary "scorer" "services" (eq .name "scorer")) $runner) -}}
{{- $_ := set $own "usesStore" (not $agent) -}}
{{- $_ := set $own "usesModel" (or $agent (eq .name "gateway")) -}}
{{- $_ := set $own "seesData" (eq .name "runner-data") -}}
{{- toJson $own -}}
{{- end }}

{{- define "m3.natsUrl" -}}
{{- if .Values.nats.trial.enabled }}nats://{{ include "m3.name" . }}-nats:4222{{ else }}{{ .Values.nats.url }}{{ end }}
{{- end }}

{{- define "m3.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.runAsUser }}
runAsGroup: {{ .Values.podSecurity.runAsUser }}
fsGroup: {{ .Values.podSecurity.fsGroup }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "m3.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "m3.env" -}}
{{- range $key := keys . | sortAlpha }}
- {name: {{ $key }}, value: {{ get $ $key | toString | quote }}}
{{- end }}
{{- end }}

{{- /* A variable out of a secret: (list NAME SECRET KEY). */}}
{{- define "m3.secretEnv" }}
- name: {{ index . 0 }}
  valueFrom: {secretKeyRef: {name: {{ index . 1 }}, key: {{ index . 2 }}}}
{{- end }}

{{- /* How a process reaches bus and store: (dict "root" $ "user" "scorer" "usesStore" true). */}}
{{- define "m3.connections" -}}
{{- $values := .root.Values -}}
- {name: M3_HOME, value: /var/lib/m3builder}
- {name: HOME, value: /var/lib/m3builder}
- {name: M3_NATS_URL, value: {{ include "m3.natsUrl" .root | quote }}}
- {name: M3_NATS_USER, value: {{ .user }}}
{{- include "m3.secretEnv" (list "M3_NATS_PASSWORD" $values.nats.existingSecret .user) }}
- {name: M3_S3_ENDPOINT, value: {{ $values.objectStore.endpoint | quote }}}
- {name: M3_S3_BUCKET_PREFIX, value: {{ $values.objectStore.bucketPrefix | quote }}}
{{- if .usesStore }}
{{- include "m3.secretEnv" (list "M3_S3_ACCESS_KEY" $values.objectStore.existingSecret (printf "%s-access-key" .user)) }}
{{- include "m3.secretEnv" (list "M3_S3_SECRET_KEY" $values.objectStore.existingSecret (printf "%s-secret-key" .user)) }}
{{- end }}
{{- if $values.tls.caSecret }}
- {name: M3_TLS_CA_FILE, value: /etc/m3builder/ca/ca.crt}
{{- end }}
{{- if $values.tls.clientSecret }}
- {name: M3_TLS_CERTIFICATE, value: /etc/m3builder/client/tls.crt}
- {name: M3_TLS_KEY, value: /etc/m3builder/client/tls.key}
{{- end }}
{{- if $values.telemetry.otlpEndpoint }}
- {name: M3_OTLP_ENDPOINT, value: {{ $values.telemetry.otlpEndpoint | quote }}}
{{- end }}
{{- include "m3.env" $values.settings }}
{{- end }}

{{- define "m3.tlsMounts" -}}
{{- if .Values.tls.caSecret }}
- {name: ca, mountPath: /etc/m3builder/ca, readOnly: true}
{{- end }}
{{- if .Values.tls.clientSecret }}
- {name: client, mountPath: /etc/m3builder/client, readOnly: true}
{{- end }}
{{- end }}

{{- define "m3.tlsVolumes" -}}
{{- with .Values.tls.caSecret }}
- {name: ca, secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}}
{{- end }}
{{- with .Values.tls.clientSecret }}
- {name: client, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}

{{- /* A folder of a pod's own, on the node's disk or on a volume made with the pod: (dict "name" NAME "scratch" {...}). */}}
{{- define "m3.scratch" -}}
{{- if .scratch.storageClassName }}
- name: {{ .name }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ .scratch.storageClassName }}
        resources: {requests: {storage: {{ .scratch.size }}}}
{{- else }}
- {name: {{ .name }}, emptyDir: {sizeLimit: {{ .scratch.size }}}}
{{- end }}
{{- end }}
