{{- /* The pod of a service, the same for a Deployment and a ScaledJob: (dict "root" $ "service" {...} "once" false). */}}
{{- define "m3.pod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $one := .service -}}
{{- $gateway := eq $one.name "gateway" -}}
{{- $bwrap := and $one.class (ne $values.sandbox.isolation "landlock") $values.sandbox.seccompProfile -}}
metadata:
  labels:
    {{- include "m3.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $one.name }}
  annotations:
    {{- if $one.usesModel }}
    checksum/catalogue: {{ toYaml $values.languageModel.catalogue | sha256sum }}
    {{- end }}
    {{- if eq $one.class "train" }}
    # A training that is moved is one that starts from its last checkpoint.
    cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
    karpenter.sh/do-not-disrupt: "true"
    {{- end }}
    kubectl.kubernetes.io/default-container: {{ $one.name }}
    {{- with $one.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "m3.name" $root }}-{{ $one.name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if .once }}
  restartPolicy: Never
  {{- end }}
  {{- if $bwrap }}
  hostUsers: false
  {{- end }}
  terminationGracePeriodSeconds: {{ $one.terminationGracePeriodSeconds }}
  securityContext:
    {{- include "m3.podSecurity" $root | nindent 4 }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $one.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $one.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $one.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $one.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $one.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "m3.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $one.name }}
  containers:
    - name: {{ $one.name }}
      image: {{ include "m3.image" (dict "root" $root "image" (get $values.image $one.image)) }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: ["-m", "services.{{ $one.user }}"{{ if .once }}, "--once", "--class", {{ $one.class }}{{ end }}]
      securityContext:
        {{- include "m3.containerSecurity" $root | nindent 8 }}
        {{- if $bwrap }}
        procMount: Unmasked
        seccompProfile: {type: Localhost, localhostProfile: {{ $values.sandbox.seccompProfile }}}
        {{- end }}
      {{- if $one.usesModel }}
      {{- with $values.languageModel.existingSecret }}
      envFrom:
        - secretRef: {name: {{ . }}}
      {{- end }}
      {{- end }}
      env:
        - {name: M3_HEALTH_PORT, value: "8081"}
        {{- include "m3.connections" (dict "root" $root "user" $one.user "usesStore" $one.usesStore) | nindent 8 }}
        {{- if $one.usesModel }}
        {{- include "m3.env" $values.languageModel.env | nindent 8 }}
        {{- if $values.languageModel.catalogue }}
        - {name: M3_MODELS_FILE, value: /etc/m3builder/models/models.yaml}
        {{- end }}
        {{- end }}
        {{- if and $values.datasets (or $gateway $one.seesData) }}
        - {name: M3_DATA_ROOTS, value: {{ include "m3.dataRoots" $root | quote }}}
        {{- end }}
        {{- if $gateway }}
        {{- include "m3.gatewayEnv" $root | nindent 8 }}
        {{- end }}
        {{- if $one.class }}
        - {name: M3_RUNNER_CLASSES, value: {{ list $one.class | toJson | quote }}}
        - {name: M3_ISOLATION, value: {{ $values.sandbox.isolation }}}
        - {name: M3_STOP_SECONDS, value: "{{ sub $one.terminationGracePeriodSeconds 15 }}"}
        {{- if $one.gpu.count }}
        - {name: M3_MIN_GPUS, value: "1"} # what of a MIG slice is in sight is its card
        {{- end }}
        {{- end }}
        {{- include "m3.env" $one.env | nindent 8 }}
      ports:
        - {name: health, containerPort: 8081}
        {{- if $gateway }}
        - {name: http, containerPort: 8080}
        {{- end }}
      {{- if not .once }}
      startupProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 2, failureThreshold: 60}
      livenessProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 20, timeoutSeconds: 5, failureThreshold: 6}
      readinessProbe: {httpGet: {path: /readyz, port: health}, periodSeconds: 5, timeoutSeconds: 5}
      {{- end }}
      resources:
        requests:
          {{- toYaml $one.resources.requests | nindent 10 }}
        limits:
          {{- toYaml $one.resources.limits | nindent 10 }}
          {{- if $one.gpu.count }}
          {{ $one.gpu.resource }}: {{ $one.gpu.count }}
          {{- end }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/m3builder}
        - {name: tmp, mountPath: /tmp}
        {{- if $one.sharedMemory }}
        - {name: shm, mountPath: /dev/shm}
        {{- end }}
        {{- include "m3.tlsMounts" $root | nindent 8 }}
        {{- if and $one.usesModel $values.languageModel.catalogue }}
        - {name: models, mountPath: /etc/m3builder/models, readOnly: true}
        {{- end }}
        {{- if and $gateway $values.gateway.signingKeySecret }}
        - {name: signing, mountPath: /etc/m3builder/signing, readOnly: true}
        {{- end }}
        {{- if $one.seesData }}
        {{- range $index, $dataset := $values.datasets }}
        - {name: dataset-{{ $index }}, mountPath: {{ $dataset.path }}, readOnly: true}
        {{- end }}
        {{- end }}
  volumes:
    {{- if $gateway }}
    - name: home
      persistentVolumeClaim: {claimName: {{ include "m3.gatewayClaim" $root }}}
    {{- else }}
    {{- include "m3.scratch" (dict "name" "home" "scratch" $one.scratch) | nindent 4 }}
    {{- end }}
    - {name: tmp, emptyDir: {sizeLimit: {{ ternary "20Gi" "256Mi" (ne $one.class "") }}}}
    {{- if $one.sharedMemory }}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $one.sharedMemory }}}}
    {{- end }}
    {{- include "m3.tlsVolumes" $root | nindent 4 }}
    {{- if and $one.usesModel $values.languageModel.catalogue }}
    - {name: models, configMap: {name: {{ include "m3.name" $root }}-models}}
    {{- end }}
    {{- if and $gateway $values.gateway.signingKeySecret }}
    - {name: signing, secret: {secretName: {{ $values.gateway.signingKeySecret }}, defaultMode: 0440}}
    {{- end }}
    {{- if $one.seesData }}
    {{- range $index, $dataset := $values.datasets }}
    - {name: dataset-{{ $index }}, persistentVolumeClaim: {claimName: {{ $dataset.claim }}, readOnly: true}}
    {{- end }}
    {{- end }}
{{- end }}

{{- define "m3.dataRoots" -}}
{{- $roots := list -}}
{{- range .Values.datasets }}{{ $roots = append $roots .path }}{{ end -}}
{{- toJson $roots -}}
{{- end }}

{{- define "m3.gatewayClaim" -}}
{{- default (printf "%s-gateway" (include "m3.name" .)) .Values.gateway.storage.existingClaim -}}
{{- end }}

{{- define "m3.gatewayEnv" -}}
{{- $gateway := .Values.gateway -}}
- {name: M3_GATEWAY_URL, value: "http://0.0.0.0:8080"}
{{- with $gateway.tokenSecret }}
{{- include "m3.secretEnv" (list "M3_GATEWAY_TOKEN" . "token") }}
{{- end }}
{{- with $gateway.oidc }}
{{- if .issuer }}
- {name: M3_OIDC_ISSUER, value: {{ .issuer | quote }}}
- {name: M3_OIDC_AUDIENCE, value: {{ .audience | quote }}}
- {name: M3_OIDC_CLIENT_ID, value: {{ .clientId | quote }}}
- {name: M3_OIDC_USER_CLAIM, value: {{ .userClaim | quote }}}
- {name: M3_OIDC_ROLES_CLAIM, value: {{ .rolesClaim | quote }}}
{{- if .roles }}
- {name: M3_OIDC_ROLES, value: {{ toJson .roles | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- if $gateway.signingKeySecret }}
- {name: M3_SIGNING_KEY, value: /etc/m3builder/signing/signing.key}
{{- end }}
{{- end }}
