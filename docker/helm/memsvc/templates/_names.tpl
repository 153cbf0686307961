{{- define "memsvc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 52 characters, because names of Services append to it. */ -}}
{{- define "memsvc.fullname" -}}
{{- $name := include "memsvc.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "memsvc.selector" -}}
app.kubernetes.io/name: {{ include "memsvc.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "memsvc.labels" -}}
{{ include "memsvc.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "memsvc.image" -}}
{{- $version := ternary .Chart.AppVersion (printf "%s-postgres-s3" .Chart.AppVersion) (eq .Values.profile "embedded") -}}
{{- .Values.image.repository }}:{{ default $version .Values.image.tag }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* The name of the Secret with settings; empty if there is none. */ -}}
{{- define "memsvc.secret" -}}
{{- if .Values.secrets.existingSecret -}}
{{- .Values.secrets.existingSecret }}
{{- else if .Values.secrets.values -}}
{{- include "memsvc.fullname" . }}-secrets
{{- end }}
{{- end }}

{{- /* Settings that follow from other values, overridden by those of .Values.settings; as YAML. */ -}}
{{- define "memsvc.settings" -}}
{{- $server := dict "address" "0.0.0.0:50051" "health_address" "0.0.0.0:50052" "grace_seconds" .Values.graceSeconds -}}
{{- if .Values.tls.secretName -}}
{{- $tls := dict "certificate" "/etc/memsvc/tls/tls.crt" "key" "/etc/memsvc/tls/tls.key" -}}
{{- if .Values.tls.clientCertificates -}}
{{- $_ := set $tls "client_ca" "/etc/memsvc/tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $server "tls" $tls -}}
{{- end -}}
{{- $settings := dict "profile" .Values.profile "data_dir" "/var/lib/memsvc/data" "server" $server -}}
{{- $_ := set $settings "http" (dict "address" "0.0.0.0:50080") -}}
{{- $_ := set $settings "access" (dict "keys" "required" "audit_file" "-") -}}
{{- $_ := set $settings "log" (dict "format" "json") -}}
{{- if ne .Values.profile "embedded" -}}
{{- /* Of uploads that are staged at a time; the size limit of the volume is derived from the product. */ -}}
{{- $_ := set $settings "files" (dict "max_bytes" 268435456 "max_streams" 16) -}}
{{- end -}}
{{- if .Values.qdrant.url -}}
{{- $_ := set $settings "vectors" (dict "options" (dict "url" .Values.qdrant.url)) -}}
{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $settings "metrics" (dict "address" "0.0.0.0:9464") -}}
{{- /* Metrics beyond loopback need this setting. Calls still need keys: see the check below. */ -}}
{{- $_ := set $server "insecure" true -}}
{{- end -}}
{{- $settings = mergeOverwrite $settings (deepCopy .Values.settings) -}}
{{- $guarded := or (eq $settings.access.keys "required") (dig "server" "tls" "client_ca" "" $settings) -}}
{{- if and .Values.metrics.enabled (not $guarded) -}}
{{- fail "metrics.enabled would let any client call the service without a key: leave settings.access.keys at \"required\", or set tls.clientCertificates." -}}
{{- end -}}
{{- if and (ne .Values.profile "embedded") (not (include "memsvc.secret" .)) -}}
{{- fail (printf "The profile %s needs a database: set secrets.existingSecret to a Secret with the key memsvc_metadata__options__url." .Values.profile) -}}
{{- end -}}
{{- if and (eq .Values.profile "cluster") (not (dig "vectors" "options" "url" "" $settings)) (not (dig "vectors" "options" "urls" "" $settings)) -}}
{{- fail "The profile cluster needs Qdrant: set qdrant.url, such as http://qdrant:6334." -}}
{{- end -}}
{{- toYaml $settings }}
{{- end }}
