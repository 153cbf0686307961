{{- /* Script of the init container: the first key is made once, next to the data, readable by the service's user only. */ -}}
{{- define "memsvc.firstKeyScript" -}}
cd /var/lib/memsvc
if [ ! -e first-admin-key.made ]; then
  umask 077
  memsvc keys create --role admin --name operations > first-admin-key
  touch first-admin-key.made
fi
{{- end }}

{{- define "memsvc.hardening" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "memsvc.pod" -}}
{{- $embedded := eq .Values.profile "embedded" -}}
{{- $secret := include "memsvc.secret" . -}}
metadata:
  labels:
    {{- include "memsvc.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed setting restarts the pods.
    checksum/settings: {{ include "memsvc.settings" . | sha256sum }}
    {{- if and .Values.secrets.values (not .Values.secrets.existingSecret) }}
    checksum/secrets: {{ toYaml .Values.secrets.values | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # preStop (5) + server.grace_seconds + closing the stores.
  terminationGracePeriodSeconds: {{ add .Values.graceSeconds 25 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if not $embedded }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "memsvc.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- if and $embedded .Values.firstKey }}
  initContainers:
    - name: first-key
      image: {{ include "memsvc.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [sh, -ec]
      args:
        - |
          {{- include "memsvc.firstKeyScript" . | nindent 10 }}
      env:
        - {name: MEMSVC_CONFIG, value: /etc/memsvc/config/memsvc.toml}
        {{- if $secret }}
        - {name: MEMSVC_SECRETS_DIR, value: /etc/memsvc/secrets}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "memsvc.hardening" . | nindent 8 }}
      volumeMounts:
        {{- include "memsvc.mounts" . | nindent 8 }}
  {{- end }}
  containers:
    - name: memsvc
      image: {{ include "memsvc.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      env:
        - {name: MEMSVC_CONFIG, value: /etc/memsvc/config/memsvc.toml}
        {{- if $secret }}
        - {name: MEMSVC_SECRETS_DIR, value: /etc/memsvc/secrets}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: grpc, containerPort: 50051}
        - {name: http, containerPort: 50080}
        - {name: health, containerPort: 50052}
        {{- if .Values.metrics.enabled }}
        - {name: metrics, containerPort: 9464}
        {{- end }}
      # At the first start the tables are made or migrated, and indexes are opened.
      startupProbe:
        grpc: {port: 50052, service: readiness}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 300
      readinessProbe:
        grpc: {port: 50052, service: readiness}
        periodSeconds: 5
        timeoutSeconds: 2
      # Independent of backends: an unreachable database restarts no pod.
      livenessProbe:
        grpc: {port: 50052, service: liveness}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      lifecycle:
        preStop:
          # Calls arrive until every node has removed this pod from the endpoints.
          sleep: {seconds: 5}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "memsvc.hardening" . | nindent 8 }}
      volumeMounts:
        {{- include "memsvc.mounts" . | nindent 8 }}
  volumes:
    - name: config
      configMap: {name: {{ include "memsvc.fullname" . }}}
    {{- if $secret }}
    - name: secrets
      secret: {secretName: {{ $secret }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    {{- if not $embedded }}
    # Disposable: the store is PostgreSQL. Uploads are staged here: files.max_bytes × files.max_streams, and 1 GiB for the rest.
    {{- $files := (include "memsvc.settings" . | fromYaml).files }}
    - name: data
      emptyDir: {sizeLimit: {{ add 1024 (div (mul (int64 $files.max_bytes) (int64 $files.max_streams)) 1048576) }}Mi}
    {{- else if .Values.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim: {claimName: {{ .Values.persistence.existingClaim }}}
    {{- else if not .Values.persistence.enabled }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
    {{- end }}
{{- end }}

{{- define "memsvc.mounts" -}}
- {name: config, mountPath: /etc/memsvc/config, readOnly: true}
{{- if include "memsvc.secret" . }}
- {name: secrets, mountPath: /etc/memsvc/secrets, readOnly: true}
{{- end }}
{{- if .Values.tls.secretName }}
# The whole folder: a file mounted by subPath does not change when the certificate is renewed.
- {name: tls, mountPath: /etc/memsvc/tls, readOnly: true}
{{- end }}
- {name: data, mountPath: /var/lib/memsvc}
- {name: tmp, mountPath: /tmp}
{{- end }}
