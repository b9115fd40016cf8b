{{/* Names are fixed: kubectl vdi, the agents and the ClusterRoles refer to them. */}}
{{- define "vdi-hub.selector" -}}
app.kubernetes.io/name: vdi-hub
{{- end }}

{{- define "vdi-hub.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "vdi-hub.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: vdi-fleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "vdi-hub.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The memory limit in MiB that follows from the fleet's size; see docs/operators.md, Size the hub. */}}
{{- define "vdi-hub.memory" -}}
{{- with .Values.size -}}
{{ add 160 (div (mul (int64 .members) 35) 100) (div (int64 .sessions) 100) }}
{{- end -}}
{{- end }}

{{/* The Secret with the certificates of an external issuer; empty if the hub issues them. */}}
{{- define "vdi-hub.tlsSecret" -}}
{{- if eq .Values.certificates.mode "certManager" -}}
vdi-hub-tls
{{- else if eq .Values.certificates.mode "secret" -}}
{{ required "certificates.secretName is needed with certificates.mode secret" .Values.certificates.secretName }}
{{- end -}}
{{- end }}

{{/*
A generated manifest of files/, with the release's namespace and labels. The text is
changed and not the objects, since Helm would turn large integers into floats.
*/}}
{{- define "vdi-hub.generated" -}}
{{- $labels := include "vdi-hub.labels" .root | nindent 4 -}}
{{- .text | replace "\n  namespace: vdi-system\n" (printf "\n  namespace: %s\n" .root.Release.Namespace) | replace "\nmetadata:\n" (printf "\nmetadata:\n  labels:%s\n" $labels) -}}
{{- end }}

{{- define "vdi-console.selector" -}}
app.kubernetes.io/name: vdi-console
{{- end }}

{{- define "vdi-console.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "vdi-console.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: vdi-fleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
